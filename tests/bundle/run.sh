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
program="/opt/$inside/share/echelon/traces/gpt_offload.v5e"
in_root --version
in_root list devices
# The engine module, a device file and a trace are found beside the program; both engines say the same.
in_root run --trace "$program" --device tpu-v5e --engine simgrid -o /tmp/run --json >"$root/tmp/simgrid.json"
in_root run --trace "$program" --device tpu-v5e --engine native --json >"$root/tmp/native.json"
makespan() { grep -o '"makespan_ps" *: *[0-9]*' "$1" | head -n 1 | grep -o '[0-9]*$'; }
grep -q '"engine" *: *"simgrid"' "$root/tmp/simgrid.json" || { echo "SimGrid's module was not used"; exit 1; }
[ "$(makespan "$root/tmp/simgrid.json")" -gt 0 ] || { echo "no makespan"; exit 1; }
echo "makespan on simgrid $(makespan "$root/tmp/simgrid.json") ps, on native $(makespan "$root/tmp/native.json") ps"
in_root report /tmp/run -o /tmp/page.html >/dev/null
grep -q '</html>' "$root/tmp/page.html" || { echo "the report has no page"; exit 1; }
in_root validate "$program" --device tpu-v5e
in_root run --trace "/opt/$inside/share/echelon/traces/gpt_unrolled_overlap.h100" --device h100-sxm | tail -n 3
# What needs a GPU says so in one line and fails.
if in_root validate "$program" --device h100-sxm --engine cuda 2>"$root/tmp/cuda.txt"; then echo "a GPU in a chroot?"; fi
grep -q 'no NVIDIA driver here' "$root/tmp/cuda.txt" || { cat "$root/tmp/cuda.txt"; exit 1; }
echo "the bundle runs on $release with none of our packages"
