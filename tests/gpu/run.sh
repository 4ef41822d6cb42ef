#!/usr/bin/env bash
# Everything that is to be learnt from a GPU, in one go and under ten minutes: its device file, predictions against its own times and bytes, a capture.
# usage: tests/gpu/run.sh [ECHELON] [OUT_DIR]      leaves OUT_DIR/device.yaml, table.md, traces and comparisons; fails where a case misses its goal
# environment: BUDGET seconds for all of it (540); DEVICE is what the device file is called; REPEAT measured replays of each case (10); SHIPPED=1 leaves out programs that do not ship with the tree
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
echelon=${1:-$here/build/release/echelon}
out=${2:-$here/gpu-suite}
if ! "$echelon" list engines | grep -q '^  cuda  *replays for real'; then
  "$echelon" list engines | sed -n 's/^  cuda  *//p'
  exit 77
fi
# Offload with and without overlap, and what it is compared with, where the captures are at hand.
programs=()
for name in gpt6_unrolled_save gpt6_unrolled_offload gpt6_base gpt6_offload mlp10_base mlp10_act mlp10_act_param adam4_base adam4_offload; do
  for file in "$here"/{../shared/traces,shared/traces,.}/gpu_aot/"$name".h100.*.hlo.txt.gz; do
    case ${SHIPPED:-}$file in 1* | *.before.hlo.txt.gz | *'*'*) ;; *) programs+=("$file") ;; esac
  done
done
exec "$echelon" calibrate --suite "$out" --budget "${BUDGET:-540}s" ${DEVICE:+--name "$DEVICE"} ${REPEAT:+--repeat "$REPEAT"} "${programs[@]+"${programs[@]}"}"
