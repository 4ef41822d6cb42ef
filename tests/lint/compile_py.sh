#!/bin/bash
# What traces/capture/compile.py says about wrong arguments, before it needs JAX, and what it keeps of a compiler's refusal. Skipped (77) without python3.
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
export PYTHONDONTWRITEBYTECODE=1 COLUMNS=200

expect() { # TEXT ARGUMENTS...: the last line says TEXT, and it fails
  local text=$1 said code
  shift
  said=$(python3 traces/capture/compile.py "$@" 2>&1 </dev/null)
  code=$?
  said=${said##*$'\n'}
  if [ "$code" = 0 ] || [[ $said != *"$text"* ]]; then
    echo "compile.py $*: said '$said' (exit $code), expected '$text'"
    failed=1
  fi
}
expect "--set: 'batch' is not NAME=VALUE" step.py --chip v5e -o "$work/o" --set batch
expect "--option: 'xla' is not NAME=VALUE" step.py --chip v5e -o "$work/o" --option xla
expect "--mesh: 'data' is not NAME=SIZE" step.py --chip v5e -o "$work/o" --mesh data
expect "--topology: 'big' is not a slice; expected something like 1x1 or 2x4" step.py --chip tpu-v5e -o "$work/o" --topology big
expect "larger than any slice of v2" step.py --chip v2 -o "$work/o" --mesh x=4096
expect "invalid choice: 'v9'" step.py --chip v9 -o "$work/o"

python3 - <<'PY' || failed=1
import os
import shutil
import sys
import tempfile
import time
sys.path.insert(0, "traces/capture")
import compile as capture

message = ("RESOURCE_EXHAUSTED: E1001: CompileTimeScopedVmemOom:\nRan out of memory in memory space vmem while allocating on stack for "
           "%f.1 = f32[8,8]{1,0:T(8,128)} custom-call(%x.1), metadata={op_name=\"jit(f)/k\"}. Scoped allocation with size 24.00M and limit 16.00M. "
           "It should not be possible to run out of scoped vmem - \nSee https://openxla.org/x for more details.\n\nTables\n [type.googleapis.com/x='\\x08']")
assert capture.refusal(message).endswith("Tables"), capture.refusal(message)
assert capture.gist(capture.refusal(message)) == (
    "RESOURCE_EXHAUSTED: E1001: CompileTimeScopedVmemOom: Ran out of memory in memory space vmem while allocating on stack for %f.1. "
    "Scoped allocation with size 24.00M and limit 16.00M."), capture.gist(capture.refusal(message))
window = "RESOURCE_EXHAUSTED: Allocation (size=4) would exceed memory (size=1) :: #allocation3 [shape = 'u8[4]{0}', space=smem, tag = 'input window'] :: k.1"
assert capture.gist(window) == window, capture.gist(window)
os.environ["XLA_FLAGS"] = "--xla_dump_to=theirs --xla_dump_hlo_module_re=step --xla_gpu_autotune_level=2"
capture.have_dumped("ours", "--xla_gpu_autotune_level=0")
assert [[f for f in os.environ["XLA_FLAGS"].split() if f.startswith(name)][-1] for name in ("--xla_dump_to", "--xla_dump_hlo_module_re", "--xla_gpu")] == [
    "--xla_dump_to=ours", "--xla_dump_hlo_module_re=.", "--xla_gpu_autotune_level=2"], os.environ["XLA_FLAGS"]
dump = tempfile.mkdtemp()
stem = os.path.join(dump, "module_0001.jit_f.tpu_comp.")
end = "after_optimizations-buffer-assignment.txt"


def slow():
    """A compiler that opens its assignment, writes its options, and takes longer over the assignment than it has to refuse what it wrote."""
    with open(os.path.join(dump, "module"), "w") as name, open(stem + end, "w") as assignment:
        name.write("jit_f")
        name.flush()
        open(stem + "debug_options", "w").close()
        time.sleep(2.5)
        assignment.write("allocation 0")
    time.sleep(60)


begun = time.monotonic()
assert capture.watched(dump, slow) == ({}, None) and time.monotonic() - begun < 30
assert os.path.getsize(stem + end) == len("allocation 0"), "ended before its assignment was written"
shutil.rmtree(dump)
assert capture.parse_mesh("data=2,model=4") == {"data": 2, "model": 4}
assert capture.choose_slice("v5e", 5, None) == "2x4" and capture.choose_slice("v4", 2, None) == "2x2x1"
assert [capture.number(t) for t in ("3", "0.5", "true", "bf16")] == [3, 0.5, True, "bf16"]
PY
exit $failed
