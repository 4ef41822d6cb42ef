#!/usr/bin/env bash
# tests/gpu/session.sh over the fake driver, which scatters, ramps and rounds like a machine: what it leaves, what a second call does, what it says without a GPU.
# usage: session_test.sh ECHELON FAKE_DRIVER
set -u
here=$(cd "$(dirname "$0")" && pwd)
echelon=$1 fake=$2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
fail() { echo "$*"; cat "$folder"/*.log; exit 1; }
# Weightless: the time that bytes would take this machine is no part of what is tested, and on a slow one took all of the budget.
export ECH_FAKE_CUDA_NAME="NVIDIA H100 80GB HBM3" ECHELON_LIBCUDA=$fake ECHELON_LIBCUBLAS=$fake ECH_FAKE_CUDA_BYTES=268435456 ECH_FAKE_CUDA_REAL=1 ECH_FAKE_CUDA_WEIGHTLESS=1 PYTHON=/bin/false REPEAT=5 SHIPPED=1

# Without PyTorch and JAX its captures fail, each with a word, and nothing else does.
BUDGET=400 WORK=$folder/work bash "$here/session.sh" "$folder/out" "$echelon" >"$folder/first.log" 2>&1
for file in session.tar.gz summary.md table.md h100-sxm-calibrated.yaml; do [ -s "$folder/out/$file" ] || fail "no $file"; done
grep -q 'torch: exit code 1 .*no PyTorch here' "$folder/first.log" || fail "the missing PyTorch is not told"
"$echelon" list devices >/dev/null && "$echelon" run --trace "$here/../../traces/gpt_offload.h100" --device "$folder/out/h100-sxm-calibrated.yaml" >/dev/null || fail "the device file is of no use"
for row in copy-ladder streaming-1-buffer streaming-2-buffers streaming-3-buffers streaming-2-buffers-graph parameter-offload activation-offload-arena activation-offload-pool products launches launches-graph fragments-cudaMalloc fragments-cudaMallocAsync fragments-best_fit fragments-tlsf fragments-mapped larger-than-the-card; do
  line=$(grep -E "^\| $row( \(scaled\))? \|" "$folder/out/table.md") || fail "no row $row"
  case $row in
  fragments-cudaMalloc | fragments-mapped) ;; # Their time is calls of the host, and calibration has it from the clock of a machine that may be busy
  *) [[ $line == *within* && $line != *beyond* ]] || fail "not within its goals: $line" ;;
  esac
done
grep -F '| copy-ladder |' "$folder/out/table.md" | grep -q ' %, ± [0-9.]* (within 3 %)' || fail "how far the repeats of copies differ is not told"
grep -q '^| GPT, unrolled | time measured | .* ms.* | .* ms.* | .* ms.* |$' "$folder/out/table.md" || fail "offload without and with overlap are not side by side"
# What the code of kernels takes is not the trace's memory.
grep -F '| streaming-2-buffers |' "$folder/out/table.md" | grep -q '8 MiB | 8 MiB | +0.0 %' || fail "memory of streaming-2-buffers"

# On a machine as bare as the first one was: what was done is not done again, what had failed is tried again.
EARLIER=$folder/out/session.tar.gz BUDGET=100 WORK=$folder/again bash "$here/session.sh" "$folder/out2" "$echelon" >"$folder/second.log" 2>&1
grep -q 'environment: done by an earlier call' "$folder/second.log" || fail "the environment was looked at again"
cmp -s "$folder/out/h100-sxm-calibrated.yaml" "$folder/out2/h100-sxm-calibrated.yaml" || fail "calibrated twice"
grep -q 'torch: exit code 1' "$folder/second.log" || fail "PyTorch was not tried again"

# A capture with paths of that machine in it.
mkdir -p "$folder/more/captures/torch" && tar -xzf "$folder/out/session.tar.gz" -C "$folder/more" || fail "the archive is not whole"
tree=$(cd "$here/../.." && pwd)
grep -qxF "$tree" "$folder/more/paths.txt" || fail "the tree's path is not kept"
printf 'echelon-capture 1\nclock 1 1\nkernel 10 20 0 7 1 1 1 1 32 1 1 "%s/step.py"\nend\n' "$tree" >"$folder/more/captures/torch/cupti.1.capture"
tar -czf "$folder/out/session.tar.gz" -C "$folder/more" .

# What ships: under the product's own name, and yet no profile of that product is taken for one of this specimen.
mkdir -p "$folder/tree"
bash "$here/ship.sh" "$folder/out" "$folder/tree" "$echelon" >"$folder/ship.log" 2>&1 || fail "nothing to ship"
for file in table.md calibration.txt copy-ladder.ech copy-ladder.json.gz; do [ -s "$folder/tree/traces/gpu_h100-sxm/$file" ] || fail "ship.sh left no $file"; done
shipped=$(zcat "$folder/tree/traces/gpu_h100-sxm/torch_cupti.1.capture.gz") || fail "ship.sh left no capture"
[[ $shipped == *\"/home/*/step.py\"* && $shipped != *"$tree"* && ${#shipped} = "$(($(wc -c <"$folder/more/captures/torch/cupti.1.capture") - 1))" ]] || fail "paths are shipped: $shipped"
export ECHELON_DEVICES=$folder/tree/configs/devices
"$echelon" list devices | grep -q 'h100-sxm-calibrated .*NVIDIA H100 80GB HBM3, calibrated 20' || fail "the calibrated device is not listed"
"$echelon" run --trace "$folder/tree/traces/gpu_h100-sxm/copy-ladder.ech" --device h100-sxm-calibrated >/dev/null || fail "the calibrated device cannot be named"
unset ECHELON_DEVICES

# No GPU: said in a line, and no failure. An archive for which there is no room leaves the one before it.
mkdir -p "$folder/bin" "$folder/out3"
printf '#!/bin/sh\nprintf part >"$2"\nexit 2\n' >"$folder/bin/tar" && chmod +x "$folder/bin/tar"
echo whole >"$folder/out3/session.tar.gz"
printf '#!/bin/sh\necho /opt/python\n' >"$folder/python" && chmod +x "$folder/python" # Says so of its prefix
(unset VIRTUAL_ENV && PYTHON=$folder/python PATH=$folder/bin:$PATH ECHELON_LIBCUDA=/nonexistent/libcuda.so.1 BUDGET=60 WORK=$folder/none bash "$here/session.sh" "$folder/out3" "$echelon") >"$folder/third.log" 2>&1
[ $? = 77 ] || fail "without a GPU"
grep -q 'no NVIDIA driver here' "$folder/third.log" || fail "the missing driver is not told"
grep -q 'libraries of Python in /opt/python$' "$folder/none/logs/environment.txt" || fail "cuBLAS is not looked for where Python is"
grep -q whole "$folder/out3/session.tar.gz" || fail "half an archive took the place of a whole one"
