#!/usr/bin/env bash
# The PTX in the tree is what nvcc makes of cuda_kernels.cu, and ptxas takes it for every GPU we name; where nvdisasm is at hand too, the machine code has four
# words of a thread on their way at a time in both of the streaming kernel's loops. Skipped without nvcc.
set -u
cd "$1" || exit 1
command -v nvcc >/dev/null && command -v ptxas >/dev/null || { echo "no nvcc here"; exit 77; }
made=$(mktemp) || exit 1
trap 'rm -f "$made"' EXIT
nvcc -ptx -arch=compute_80 sim/replay/cuda_kernels.cu -o "$made" || exit 1
# Instructions only: comments and the version line tell of the compiler.
body() { grep -vE '^//|^\.version|^$' "$1"; }
if [ "$(grep 'Compiler Build ID' "$made")" = "$(grep 'Compiler Build ID' sim/replay/cuda_kernels.ptx)" ]; then
  diff <(body "$made") <(body sim/replay/cuda_kernels.ptx) || exit 1
fi
# Every ptxas at hand (this toolkit's, and those in ECHELON_PTXAS): all architectures that it knows among ours.
for ptxas in "$(command -v ptxas)" ${ECHELON_PTXAS:-}; do
  for arch in sm_80 sm_86 sm_87 sm_89 sm_90 sm_90a sm_100 sm_103 sm_120 sm_121; do
    "$ptxas" --help | grep -q "'$arch'" || continue
    "$ptxas" -arch=$arch sim/replay/cuda_kernels.ptx -o "$made" || { echo "$ptxas refuses $arch"; exit 1; }
    command -v nvdisasm >/dev/null || continue
    rows=$(nvdisasm "$made" 2>/dev/null | sed -n '/^\.text\.echelon_stream:/,/^\.text\./p' | grep -oE 'LDG|STG|LOP3|BRA' | uniq -c | grep -c ' 4 LDG$')
    [ "$rows" = 2 ] || { echo "$ptxas, $arch: $rows of 2 loops of echelon_stream have four loads in a row"; exit 1; }
  done
done
