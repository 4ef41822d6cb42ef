#!/usr/bin/env bash
# (Sides of measured products, "4096x128", are read as a table.) A number of the kernel or runtime section of a device file that no code reads is a promise that is not kept: --set would change it, and nothing.
set -u
cd "$1" || exit 1
keys=$(awk 'FNR == 1 { section = "" } /^[a-z]/ { section = $1 } (section == "kernel:" || section == "runtime:") && /^ +[a-z_][a-z_0-9]*: \{value:/ { sub(":", "", $1); print $1 }' \
  configs/devices/*.yaml | sort -u)
[ -n "$keys" ] || { echo "no keys found: the device files have another form"; exit 1; }
status=0
for key in $keys; do
  stem=${key%_ps}
  grep -rqE "(\"|\\.)($key\"|${stem}_(ps|piece_ps|page_ps)\"|$stem\")" --include='*.c' --include='*.h' models sim || { echo "configs/devices: no code reads '$key'"; status=1; }
done
exit $status
