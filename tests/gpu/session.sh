#!/usr/bin/env bash
# A whole session on a machine with an NVIDIA GPU: calibration, suite, captures of PyTorch and JAX, validation of every capture, a summary; ready to ship.
# usage: tests/gpu/session.sh OUT [ECHELON]
# afterwards: tests/gpu/ship.sh OUT puts the device file, the traces, the captures and the table into the tree
#   OUT      gets session.tar.gz (everything, renewed all the time, so that nothing is lost when this is killed), summary.md, table.md and the device file:
#            four files, together below 16 MB
#   ECHELON  the program; without it the tree's release build, else a bundle (bundle/echelon-*.tar.xz in the tree) is unpacked
# environment: BUDGET seconds for all of it (540); WORK folder to work in (/tmp/echelon-session); EARLIER a session.tar.gz of an earlier call on the same
#   GPU, to go on with; PYTHON (python3); REPEAT measured replays of each case (10); SHIPPED=1 leaves out programs that do not ship with the tree;
#   STAGES names of stages, and no others ("suite measures").
#   Every stage has a time limit, is done once, and stops no other. Exit code: 0 if all went well, 77 without a GPU.
# on a machine that is lent for minutes, bare and cut off from the network. Before, at home, in the tree:
#   cmake --workflow --preset bundle && mkdir -p bundle gpu_aot && cp build/bundle/echelon-*.tar.xz bundle/     (24 MB; runs on glibc 2.36 or newer)
#   cp ../shared/traces/gpu_aot/*.h100.*.gz gpu_aot/        (1.6 MB: 22 more programs with and without offload; can be left out)
#   Both folders go there beside the tracked files (27 MB). There, one command of ten minutes: tests/gpu/session.sh OUT. What must be had comes first: on an H100
#   25 s of calibration, 75 of cases with goals, 95 of 33 programs, then PyTorch's and JAX's captures, 1 to 2 minutes, of which importing and
#   compiling are most. What was left, failed or was cut off is done by the same command again, with the same WORK on the same machine, or with
#   EARLIER=OUT/session.tar.gz of the first call taken along to another one with the same GPU. Where the machine is lent for less than that takes once more:
#   with a BUDGET of what is left of its time less half a minute, or the last archive may be cut off with it.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
usage() { sed -n '2,/^set /{/^set /d;s/^# //;p}' "$0"; }
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  '' | -*) usage >&2; exit 2 ;;
esac
mkdir -p "$1" && out=$(cd "$1" && pwd) || exit 1
PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin
budget=${BUDGET:-540} work=${WORK:-/tmp/echelon-session} python=${PYTHON:-python3}
# Python's own libraries (cuBLAS, CUPTI) are looked for here, too: the python3 of PATH may be a link to one elsewhere.
[ -n "${VIRTUAL_ENV:-}" ] || VIRTUAL_ENV=$("$python" -c 'import sys; print(sys.prefix)' 2>/dev/null)
export VIRTUAL_ENV
mkdir -p "$work/done" "$work/logs" && work=$(cd "$work" && pwd) || exit 1
[ -z "${EARLIER:-}" ] || tar -xzf "$EARLIER" -C "$work" || echo "no earlier session in $EARLIER: starting anew"
printf '%s\n' "$here" "$VIRTUAL_ENV" >>"$work/paths.txt" # What ship.sh takes out of captures, those of an earlier call's machine too

echelon=${2:-$here/build/release/echelon}
# A build of another machine may be there and lack its libraries here.
runs() { [ -x "$echelon" ] && "$echelon" --version >/dev/null 2>&1; }
if ! runs; then
  for bundle in "$here"/bundle/echelon-*.tar.xz "$here"/build/bundle/echelon-*.tar.xz; do
    [ -f "$bundle" ] || continue
    mkdir -p "$work/../echelon-bundle"
    # Not every machine has xz; Python unpacks it too.
    tar -xJf "$bundle" -C "$work/../echelon-bundle" 2>/dev/null ||
      "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$bundle" "$work/../echelon-bundle"
    echelon=$(find "$work"/../echelon-bundle -path '*/bin/echelon' | tail -n 1)
    break
  done
fi
runs || { echo "no echelon that runs: expected a program, a release build or a bundle ($echelon)"; exit 1; }

# What the device file is called after: nvidia-smi's or the driver's name of the GPU.
product=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
[ -n "$product" ] || product=$("$echelon" list engines 2>/dev/null | sed -n 's/^  cuda  *replays for real on \(.*\); it measures.*/\1/p')
case $product in
  *H100*HBM3*) name=h100-sxm ;;
  *) name=$(echo "$product" | grep -oE '(G?[HB]|[ALTV])[0-9]+S?|RTX [A-Za-z0-9 ]+' | head -n 1 | tr '[:upper:] ' '[:lower:]-') ;;
esac
name=${name:-gpu}-calibrated
say() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }
left() { echo $((budget - SECONDS)); }

# Everything so far, whole at every moment: what is being written has a name of its own until it is. Files above 6 MB stay behind, and smaller ones where all
# together are more than 15 MB: what a machine hands back may be limited.
keep() { { cp "$1" "$out/.part.$BASHPID" && mv "$out/.part.$BASHPID" "$2"; } || rm -f "$out/.part.$BASHPID"; }
pack() {
  local most part=$out/.part.$BASHPID
  for most in 6000k 2000k 500k 100k; do
    # 1: a file grew meanwhile. More than that, and the archive is not whole: the one before stays.
    # shellcheck disable=SC2046
    (cd "$work" && tar -czf "$part" $(find . -type f -size -$most ! -name '.*' | sort)) 2>/dev/null
    [ $? -le 1 ] || { rm -f "$part"; break; }
    [ "$(stat -c %s "$part")" -gt 15000000 ] || break
  done
  [ ! -f "$part" ] || mv "$part" "$out/session.tar.gz"
  for file in summary.md suite/table.md; do [ ! -f "$work/$file" ] || keep "$work/$file" "$out/${file##*/}"; done
  [ ! -f "$work/suite/device.yaml" ] || keep "$work/suite/device.yaml" "$out/$name.yaml"
}
# Often while little time has passed: a session can be cut off early.
keep_packing() {
  local pause=2
  while sleep $pause; do
    pack
    [ $pause -ge 20 ] || pause=$((pause + 3))
  done
}

# stage NAME LIMIT COMMAND...: runs it at most so long, its output in logs/NAME.txt; what is done is not done again. COMMAND may be a function.
failed=0
stage() {
  local stage=$1 limit=$2 before=$SECONDS code last
  shift 2
  case " ${STAGES:-$stage} " in *" $stage "*) ;; *) return 0 ;; esac
  if [ -f "$work/done/$stage" ]; then
    say "$stage: done by an earlier call"
    return 0
  fi
  if [ "$(left)" -lt 10 ]; then
    say "$stage: left, no time"
    echo "| $stage | left for another call | |" >>"$work/left.md"
    failed=1
    return 1
  fi
  [ "$limit" -le $(($(left) - 5)) ] || limit=$(($(left) - 5))
  say "$stage (at most $limit s)"
  timeout -k 5 "$limit" bash -c '"$@"' stage "$@" >"$work/logs/$stage.txt" 2>&1
  code=$?
  last=$(grep -v '^ *$' "$work/logs/$stage.txt" | tail -n 1 | tr '|' '/' | cut -c 1-160)
  if [ $code = 0 ]; then
    touch "$work/done/$stage"
    say "$stage: done in $((SECONDS - before)) s"
    echo "| $stage | done | $((SECONDS - before)) s |" >>"$work/stages.md"
  else
    say "$stage: exit code $code after $((SECONDS - before)) s: $last"
    echo "| $stage | exit code $code: $last | $((SECONDS - before)) s |" >>"$work/stages.md"
    failed=1
  fi
  summary
  return $code
}

# Some virtual machines begin with little memory and get more as it is used; pinning a lot of it at once might be refused there.
grow_memory() {
  "$python" -c '
import re, time
end, held = time.monotonic() + 15, []
def kib(what): return int(re.search(what + r": *(\d+)", open("/proc/meminfo").read())[1])
while kib("MemTotal") < 24 << 20 and time.monotonic() < end:
    if kib("MemAvailable") > 1 << 20: held.append(b"\1" * (256 << 20))
    else: time.sleep(0.2)
' || true
}

environment() {
  date -u
  uname -a
  "$echelon" --version
  nvidia-smi || true
  nvidia-smi -q -d CLOCK,POWER,PERFORMANCE 2>/dev/null | head -n 80
  lscpu 2>/dev/null | grep -E 'Model name|^CPU\(s\)|NUMA'
  free -m 2>/dev/null
  grow_memory
  free -m 2>/dev/null
  cat /sys/fs/cgroup/memory.max 2>/dev/null
  ulimit -l
  echo "libraries of Python in $VIRTUAL_ENV"
  "$python" -c 'import sys; print(sys.version, sys.prefix)'
  "$python" -m pip list 2>/dev/null | grep -iE '^(torch|jax|jaxlib|triton|nvidia-cu|cuda)'
  true
}

# Whether our engine can start at all. A driver without its own compiler cannot load PTX: where the toolkit's is at hand it makes machine code of it.
check_engine() {
  if ! "$echelon" list engines | grep -q '^  cuda  *replays for real'; then
    "$echelon" list engines | sed -n 's/^  cuda  *//p'
    return 1
  fi
  local arch
  arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
  [ -n "$arch" ] && command -v ptxas >/dev/null && ptxas -arch="sm_$arch" "$here/sim/replay/cuda_kernels.ptx" -o "$work/kernels.cubin"
  true
}

suite() {
  run_suite() { DEVICE=$device_name BUDGET=$1 bash "$here/tests/gpu/run.sh" "$echelon" "$work/suite"; }
  run_suite "$1" && return 0
  [ ! -f "$work/suite/device.yaml" ] && [ -f "$work/kernels.cubin" ] || return 1
  echo "once more, with machine code that ptxas made"
  ECHELON_CUDA_KERNELS=$work/kernels.cubin run_suite "$1"
}

has_module() { "$python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)" 2>/dev/null; }

torch_captures() {
  has_module torch || { echo "no PyTorch here"; return 1; }
  "$python" "$here/traces/capture/gpu/torch_step.py" --gpu --out "$work/captures/torch" --offload
}

# Compiled once: XLA tries kernels out on the GPU, which takes time and would be most of a capture.
export JAX_COMPILATION_CACHE_DIR=$work/../echelon-jax JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
jax_captures() {
  has_module jax || { echo "no JAX here"; return 1; }
  "$python" "$here/traces/capture/gpu/jax_step.py" --gpu --out "$work/captures/jax" || "$python" "$here/traces/capture/gpu/jax_step.py" --gpu --out "$work/captures/jax" --no-offload
}

cupti_torch() {
  has_module torch || { echo "no PyTorch here"; return 1; }
  mkdir -p "$work/captures/torch"
  "$echelon" capture -o "$work/captures/torch/cupti" -- "$python" "$here/traces/capture/gpu/torch_step.py" --gpu --plain --offload && shrink torch
}

cupti_jax() {
  has_module jax || { echo "no JAX here"; return 1; }
  mkdir -p "$work/captures/jax"
  { "$echelon" capture -o "$work/captures/jax/cupti" -- "$python" "$here/traces/capture/gpu/jax_step.py" --gpu --plain ||
      "$echelon" capture -o "$work/captures/jax/cupti" -- "$python" "$here/traces/capture/gpu/jax_step.py" --gpu --plain --no-offload; } && shrink jax
}

# XLA puts its kernels into CUDA graphs, in which they have no operations' names; without those, each is told.
jax_without_graphs() {
  has_module jax || { echo "no JAX here"; return 1; }
  XLA_FLAGS="${XLA_FLAGS:-} --xla_gpu_enable_command_buffer=" "$python" "$here/traces/capture/gpu/jax_step.py" --gpu --out "$work/captures/jax-without-graphs"
}

# A step that is one launch of a CUDA graph: its kernels are told one by one all the same.
cupti_torch_graph() {
  has_module torch || { echo "no PyTorch here"; return 1; }
  mkdir -p "$work/captures/torch-graph"
  "$echelon" capture -o "$work/captures/torch-graph/cupti" -- "$python" "$here/traces/capture/gpu/torch_step.py" --gpu --plain --graph && shrink torch-graph
}

# PyTorch with the driver's own pool in place of its caching allocator: memory taken and given back in the order of a stream.
cupti_torch_pool() {
  has_module torch || { echo "no PyTorch here"; return 1; }
  mkdir -p "$work/captures/torch-pool"
  PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync "$echelon" capture -o "$work/captures/torch-pool/cupti" -- \
    "$python" "$here/traces/capture/gpu/torch_step.py" --gpu --plain && shrink torch-pool
}

# Managed memory: CUPTI's counters of it, which a driver may refuse while it starts.
cupti_managed() {
  local file
  mkdir -p "$work/captures/managed"
  "$echelon" capture -o "$work/captures/managed/cupti" -- "$python" "$here/traces/capture/gpu/managed.py" || return 1
  for file in "$work"/captures/managed/cupti.*.capture; do
    grep '^refused' "$file"
    grep -q '^unified ' "$file" && gzip -9f "$file" && return 0
  done
  echo "no migration was captured"
  return 1
}

# What it costs to be captured: the same steps with and without.
overhead() {
  has_module torch || { echo "no PyTorch here"; return 1; }
  local step code=0
  set -o pipefail
  for step in torch_step jax_step; do
    [ $step = torch_step ] || has_module jax || continue
    "$python" "$here/traces/capture/gpu/$step.py" --gpu --plain --steps 30 | sed "s/^/$step alone: /" || code=1
    "$echelon" capture -o "$work/overhead" -- "$python" "$here/traces/capture/gpu/$step.py" --gpu --plain --steps 30 | sed "s/^/$step captured: /" || code=1
    rm -f "$work"/overhead.*
  done
  "$python" "$here/traces/capture/gpu/torch_step.py" --gpu --plain --profiled --steps 30 | sed "s/^/torch_step by PyTorch's profiler: /" || code=1
  return $code
}

# The same program on the calibrated device without the GPU: what echelon says of it before it has run, beside what the captures say of it after.
pretended_torch() {
  has_module torch || { echo "no PyTorch here"; return 1; }
  mkdir -p "$work/captures/torch"
  "$echelon" capture --pretend "$work/suite/device.yaml" -o "$work/captures/torch/pretended" -- "$python" "$here/traces/capture/gpu/torch_step.py" --gpu --plain --offload &&
    gzip -9f "$work"/captures/torch/pretended.*.pretend
}

# Memory and time with each measure done by hand, and the largest batch; JAX's programs with state and activations on the host, checkpointed, not.
torch_measures() {
  has_module torch || { echo "no PyTorch here"; return 1; }
  "$python" "$here/traces/capture/gpu/measures.py" --out "$work/captures/measures" --most "$1"
}

jax_offload() {
  has_module jax || { echo "no JAX here"; return 1; }
  "$python" "$here/traces/capture/gpu/jax_offload.py" --out "$work/captures/jax_offload" --most "$1" --profile "gpt unrolled inputs"
}

# Captures are text: a tenth is left of them. An empty one is none.
shrink() {
  local file some=1
  for file in "$work/captures/$1"/cupti.*.capture; do
    [ -f "$file" ] && grep -q '^kernel ' "$file" && gzip -9f "$file" && some=0
  done
  [ $some = 0 ] || echo "no kernel was captured"
  return $some
}

validate() {
  local file code=0 device=$work/suite/device.yaml
  for file in $(find "$work/captures" -type f \( -name '*.capture*' -o -name '*.pretend*' -o -name '*.json.gz' -o -name '*.pickle.gz' -o -name '*.pb.gz' \) 2>/dev/null | sort); do
    echo "### ${file#"$work"/captures/} ($(stat -c %s "$file") bytes)"
    echo '```'
    timeout 60 "$echelon" info "$file" || code=1
    case $file in
      *snapshot.pickle.gz) timeout 60 "$echelon" alloc "$file" --report --allocator pytorch: --allocator pytorch:expandable_segments:True || code=1 ;;
      *memory.pb.gz) ;;
      *.pretend*) timeout 60 "$echelon" run --trace "$file" --device "$device" || code=1 ;;
      */cupti.*) timeout 60 "$echelon" run --trace "$file" --device "$device" && timeout 60 "$echelon" validate "$file" --device "$device" || code=1 ;;
      *) timeout 60 "$echelon" validate "$file" --device "$device" || code=1 ;;
    esac
    echo '```'
  done
  return $code
}

summary() {
  {
    echo "# Session of $(date -u +%Y-%m-%d): $(sed -n 2p "$work/suite/gpu.txt" 2>/dev/null)"
    echo
    echo "By \`tests/gpu/session.sh\` of $("$echelon" --version 2>/dev/null | head -n 1)."
    echo
    echo "| stage | outcome | time |"
    echo "|---|---|---|"
    cat "$work/stages.md" "$work/left.md" 2>/dev/null
    echo
    cat "$work/suite/table.md" 2>/dev/null
    echo
    echo "## What being captured costs"
    echo
    grep 'median step' "$work/logs/overhead.txt" 2>/dev/null
    echo
    echo "## Captures"
    echo
    cat "$work/logs/validate.txt" 2>/dev/null
  } >"$work/summary.md"
}

device_name=$name
export here work echelon python device_name
export -f environment grow_memory check_engine suite has_module torch_captures jax_captures cupti_torch cupti_jax jax_without_graphs cupti_torch_graph cupti_torch_pool cupti_managed overhead pretended_torch torch_measures jax_offload shrink validate
rm -f "$work/left.md" "$work/done/engine" # This machine may be another one
keep_packing &
packer=$!
trap 'kill $packer 2>/dev/null; pack; rm -f "$out"/.part.*' EXIT
trap 'exit 143' TERM INT

stage environment 60 environment
if ! stage engine 60 check_engine; then
  cat "$work/logs/engine.txt"
  exit 77
fi
# The suite is what only a GPU tells; the captures need about two minutes after it.
share=$(($(left) * 6 / 10))
stage suite $((share + 30)) suite "$share"
stage torch 100 torch_captures
stage cupti-torch 100 cupti_torch
stage pretended 60 pretended_torch
stage jax 100 jax_captures
stage cupti-jax 100 cupti_jax
stage jax-without-graphs 60 jax_without_graphs
stage overhead 60 overhead
stage cupti-torch-graph 40 cupti_torch_graph
stage cupti-torch-pool 40 cupti_torch_pool
stage cupti-managed 30 cupti_managed
stage measures 260 torch_measures 240
stage jax-offload 160 jax_offload 140
[ ! -d "$work/captures" ] || rm -f "$work/done/validate"
stage validate 120 validate
# What the suite had no time for, if there is some after all.
[ -f "$work/done/suite" ] || [ "$(left)" -lt 40 ] || stage suite $(($(left) - 10)) suite $(($(left) - 15))
summary
# Whoever sees only the end of this has the figures all the same.
cat "$work/suite/calibration.txt" 2>/dev/null
grep '^|' "$work/suite/table.md" 2>/dev/null | cut -c 1-250
say "all is in $out/session.tar.gz; the device file is $out/$name.yaml, the tables are in $out/summary.md"
exit $failed
