#!/usr/bin/env bash
# Puts what a session on a GPU has left into the tree, and looks whether it is of use there.
# usage: tests/gpu/ship.sh OUT [TREE [ECHELON]]        OUT: of tests/gpu/session.sh; TREE: this one; ECHELON: the tree's release build
# leaves configs/devices/NAME-calibrated.yaml and traces/gpu_NAME/: table.md with date and command, calibration.txt, each case's trace (.ech) and its
#   comparison (.json.gz), captures of up to 1 MB and JAX's programs, in which paths of that machine stand no longer. To be done by hand then: validation/cuda_engine.md and the last row of README.md's table, traces/README.md, the
#   commit. A file calibrated on one specimen never stands in for its kind: a profile that names the product is still matched with the data-sheet file
#   (h100-sxm, h200).
set -eu
shopt -s nullglob
[ $# -ge 1 ] || { sed -n 3,7p "$0"; exit 2; }
out=$(cd "$1" && pwd)
tree=$(cd "${2:-$(dirname "$0")/../..}" && pwd)
echelon=${3:-$tree/build/release/echelon}
device=$(echo "$out"/*-calibrated.yaml)
[ -f "$device" ] || { echo "expected one calibrated device in $out, found: $device"; exit 1; }
name=$(basename "$device" .yaml)
folder=$tree/traces/gpu_${name%-calibrated}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$out/session.tar.gz" -C "$work"
grep -q '^calibrated: ' "$device" || { echo "$device was not calibrated"; exit 1; }
mkdir -p "$tree/configs/devices" "$folder"
# The session calls the device so too: `--device NAME-calibrated` finds it from now on. What a framework takes of the host no calibration measures: it stays.
framework=$(grep '^  eager_operator_ps:' "$tree/configs/devices/$name.yaml" 2>/dev/null || true)
{ sed '/^  submit_ps:/q' "$device"; [ -z "$framework" ] || echo "$framework"; sed '1,/^  submit_ps:/d' "$device"; } >"$work/device.yaml"
cp "$work/device.yaml" "$tree/configs/devices/$name.yaml"
cp "$work/suite/table.md" "$work/suite/calibration.txt" "$folder/"
for trace in "$work"/suite/*.ech; do
  case=$(basename "$trace" .ech)
  [ -f "$work/suite/$case.json" ] || continue
  cp "$trace" "$folder/"
  # 3: it does not fit, which is what one of them is for
  "$echelon" run --trace "$trace" --device "$device" >/dev/null || [ $? = 3 ] || { echo "$case: the trace and the device file do not go together"; exit 1; }
done
for comparison in "$work"/suite/*.json; do gzip -9nc "$comparison" >"$folder/$(basename "$comparison").gz"; done
# Where the tree and Python lay there becomes another path of as many characters: lengths are told in pickles and protobufs.
neutral=/home/user/$(printf '%*s' 300 '' | tr ' ' x)
expressions=()
while read -r path; do
  [ ${#path} -lt 4 ] || expressions+=(-e "s|$(printf '%s' "$path" | sed 's/[].*^$|\\[]/\\&/g')|${neutral:0:${#path}}|g")
done < <(sort -r "$work/paths.txt" 2>/dev/null)
anonymous() { if [ ${#expressions[@]} -gt 0 ]; then LC_ALL=C sed "${expressions[@]}"; else cat; fi; }
# JAX's programs are folders, as --trace takes them.
for program in "$work"/captures/jax_offload/*/*.gz; do
  target=$folder/${program#"$work"/captures/}
  mkdir -p "$(dirname "$target")"
  zcat "$program" | anonymous | gzip -9n >"$target"
  rm "$program"
done
for figures in "$work"/captures/jax_offload/*.csv "$work"/captures/measures/*.csv; do
  mkdir -p "$(dirname "$folder/${figures#"$work"/captures/}")"
  cp "$figures" "$folder/${figures#"$work"/captures/}"
done
find "$work/captures" "$work/suite" -name '*.capture*' -size -1000k -o -path '*captures*' -name '*.gz' -size -1000k 2>/dev/null | while read -r capture; do
  "$echelon" info "$capture" >/dev/null || { echo "$capture cannot be read"; continue; }
  target=$folder/$(echo "${capture#"$work"/}" | sed 's,^captures/,,; s,^suite/,,; s,/,_,g')
  case $capture in *.gz) zcat "$capture" | anonymous | gzip -9n >"$target" ;; *) anonymous <"$capture" | gzip -9n >"$target.gz" ;; esac
done
echo "$tree/configs/devices/$name.yaml, $folder: $(ls "$folder" | wc -l) files, $(du -sh "$folder" | cut -f 1)"
echo "now: validation/cuda_engine.md and the last row of README.md's table from $folder/table.md, a line of traces/README.md, git add"
