#!/usr/bin/env bash
# Proves that the bundle is relocatable: unpacks it in a fresh root of another Debian release with none of our packages, and runs it there.
# usage (as root): tests/bundle/run.sh [RELEASE]        builds the bundle, needs debootstrap; RELEASE is trixie unless given
set -euo pipefail
cd "$(dirname "$0")/../.."
release=${1:-trixie}
command -v debootstrap >/dev/null || { echo "debootstrap is not installed"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "must be root to make a foreign root"; exit 77; }
cmake --preset bundle >/dev/null
cmake --build --preset bundle | tail -n 1
root=$(mktemp -d)
trap 'umount "$root/proc" 2>/dev/null || true; rm -rf "$root"' EXIT
debootstrap --variant=minbase "$release" "$root" >/dev/null
mount -t proc proc "$root/proc" # $ORIGIN needs it
tar -xJf build/bundle/echelon-*.tar.xz -C "$root/opt"
inside=$(cd "$root/opt" && echo echelon-*)
in_root() { chroot "$root" "/opt/$inside/bin/echelon" "$@"; }
in_root --version
in_root list devices
in_root run --trace "/opt/$inside/share/echelon/traces/gpt_offload.v5e" --device tpu-v5e --engine simgrid | tail -n 3
in_root run --trace "/opt/$inside/share/echelon/traces/gpt_offload.v5e" --device tpu-v5e --engine native | tail -n 3
echo "the bundle runs on $release with none of our packages"
