#!/bin/bash
# A program's own kernels in Triton, and those that TorchInductor picks, of PyTorch on an NVIDIA GPU that is not there. Skipped (77) where python3 has no torch
# built with CUDA.
set -u
. "$(dirname "$0")/pretend_begin"
begin 'import torch; assert torch.version.cuda' "torch built with CUDA"

# Triton's autotuner times nothing: of four choices the first has no code, the second is taken, the others are not compiled. Once to tune, once for each call.
cat >"$work/tuned.py" <<'PY'
import torch, triton, triton.language as tl
@triton.autotune([triton.Config({"N": n}) for n in (64, 128, 256, 512)], key=["n"])
@triton.jit
def double(x, n, N: tl.constexpr):
    tl.static_assert(N != 64)
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)
x = torch.ones(4096, device="cuda")
for _ in range(3):
    double[lambda meta: (triton.cdiv(4096, meta["N"]),)](x, 4096)
assert double.best_config.kwargs["N"] == 128
assert len(next(iter(double.fn.device_caches.values()))[0]) == 1  # compiled
PY
if python3 -c 'import triton' 2>/dev/null; then
  TRITON_CACHE_DIR=$work/triton "$echelon" capture --pretend h100-sxm -o "$work/tuned" -- python3 "$work/tuned.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
  number=$(sed -n 's/^name \([0-9]*\) "double"$/\1/p' "$work"/tuned.*.pretend)
  [ "$(grep -c "^kernel [0-9]* 0 0 $number " "$work"/tuned.*.pretend)" = 4 ] || { echo "not four launches:"; grep -n '^kernel' "$work"/tuned.*.pretend; exit 1; }
fi

# What a program's own kernels multiply, by their tiles: loops that hang on the program, on numbers that it is given, on whole numbers that the host copied; an early
# end, a loop whose end is computed, one that goes on; a descriptor's sizes; the same within torch.compile, and from its cache. One that hangs on results is said.
cat >"$work/tiles.py" <<'PY'
import torch, triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
@triton.jit
def attend(q, k, v, o, n, causal: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rows, columns = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, D)
    mine = tl.load(q + rows[:, None] * D + columns[None, :])
    most, sums, out = tl.full((N,), -1e9, tl.float32), tl.zeros((N,), tl.float32), tl.zeros((N, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * N if causal else n, N):
        there = (start + tl.arange(0, N))[:, None] * D + columns[None, :]
        scores = tl.dot(mine, tl.load(k + there).T)
        more = tl.maximum(most, tl.max(scores, 1))
        shares, kept = tl.exp(scores - more[:, None]), tl.exp(most - more)
        sums, most = sums * kept + tl.sum(shares, 1), more
        out = out * kept[:, None] + tl.dot(shares.to(tl.bfloat16), tl.load(v + there))
    tl.store(o + rows[:, None] * D + columns[None, :], (out / sums[:, None]).to(tl.bfloat16))
@triton.jit
def grouped(x, w, y, ends, groups, K, N: tl.constexpr):
    tile, row, found, start = tl.program_id(0), 0, -1, 0
    for i in range(groups):
        end = tl.load(ends + i)
        if found < 0:
            if tile < tl.cdiv(end - row, N):
                found, start = i, row + tile * N
            else:
                tile -= tl.cdiv(end - row, N)
        row = end
    if found < 0:
        return
    at, sums = tl.arange(0, N), tl.zeros((N, N), tl.float32)
    for k in range(0, K, N):
        sums += tl.dot(tl.load(x + (start + at)[:, None] * K + k + at[None, :]), tl.load(w + found * K * N + (k + at)[:, None] * N + at[None, :]))
    tl.store(y + (start + at)[:, None] * N + at[None, :], sums)
@triton.jit
def again(x, times, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    i, left, x_at = 0, tl.load(times), tl.load(x + at)
    sums = tl.zeros((N, N), tl.float32)
    while i < left:
        sums, i = tl.dot(x_at, x_at, sums), i + 2
    tl.store(x + at, sums)
@triton.jit
def persistent(a, b, c, N: tl.constexpr, STEP: tl.constexpr):
    wide = tl.cdiv(b.shape[0], N)
    for tile in tl.range(tl.program_id(0), tl.cdiv(a.shape[0], N) * wide, STEP, flatten=True):
        sums = tl.zeros((N, N), tl.float32)
        for k in range(tl.cdiv(a.shape[1], N)):
            sums = tl.dot(a.load([tile // wide * N, k * N]), b.load([tile % wide * N, k * N]).T, sums)
        c.store([tile // wide * N, tile % wide * N], sums.to(tl.bfloat16))
q = torch.zeros(1024, 64, dtype=torch.bfloat16, device="cuda")
attend[(16,)](q, q, q, torch.empty_like(q), 1024, True, 64, 64)
print("tiles attend", 4 * 64 * 64 * 64 * (16 * 17 // 2))
attend[(16,)](q, q, q, torch.empty_like(q), 1000, False, 64, 64)
print("tiles attend", 4 * 64 * 64 * 64 * 16 * 16)
for ends in ([100, 1000, 1000, 1300], [1, 2, 3, 4]):
    grouped[(40,)](torch.zeros(2048, 256, dtype=torch.bfloat16, device="cuda"), torch.zeros(4, 256, 64, dtype=torch.bfloat16, device="cuda"),
                   torch.zeros(2048, 64, device="cuda"), torch.tensor(ends, dtype=torch.int32).cuda(), 4, 256, 64)
    print("tiles grouped", 2 * 64 * 64 * 256 * sum(-(-(end - start) // 64) for start, end in zip([0] + ends, ends)))
again[(3,)](torch.zeros(32, 32, device="cuda"), torch.tensor([11]).cuda(), 32)
print("tiles again", 3 * 2 * 32**3 * 6)
again[(3,)](torch.zeros(32, 32, device="cuda"), torch.rand(1, device="cuda") * 8, 32)  # not known
a, b, c = (torch.zeros(size, dtype=torch.bfloat16, device="cuda") for size in ((300, 200), (150, 200), (300, 152)))
persistent[(7,)](*(TensorDescriptor.from_tensor(array, [64, 64]) for array in (a, b, c)), 64, 7)
print("tiles persistent", 2 * 64**3 * 5 * 3 * 4)
@torch.library.triton_op("their::attend", mutates_args=())
def operator(q: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(q)
    torch.library.wrap_triton(attend)[(16,)](q, q, q, out, 1024, True, 64, 64)
    return out
torch.compile(lambda q: operator(q * 2) + 1)(q)
print("tiles attend", 4 * 64 * 64 * 64 * (16 * 17 // 2))
PY
if python3 -c 'import triton.tools.tensor_descriptor' 2>/dev/null; then
  for cached in 0 1; do
    TRITON_CACHE_DIR=$work/triton TORCHINDUCTOR_CACHE_DIR=$work/tiles.inductor "$echelon" capture --pretend h100-sxm -o "$work/tiles$cached" -- python3 "$work/tiles.py" >"$work/said" 2>&1 ||
      { tail -20 "$work/said"; exit 1; }
    awk '$1 == "name" { number = $2; sub(/^name [0-9]* /, ""); gsub(/"/, ""); name[number] = $0 } $1 == "kernel" { kernel = name[$5] } $1 == "products" { print "tiles", kernel, $3 }' \
      "$work/tiles$cached".*.pretend >"$work/told"
    grep '^tiles' "$work/said" | diff - "$work/told" || { echo "other products (cached: $cached)"; exit 1; }
    [ "$(grep -c '"class=attention head=64"' "$work/tiles$cached".*.pretend)" = 1 ] && grep -q '"product=1x192x320x256 operand_bytes=2 class=product tile=64x64x64 ' "$work/tiles$cached".*.pretend ||
      { grep class= "$work/tiles$cached".*.pretend; exit 1; }
    grep -q "how much Triton's again multiplies is not told (its loops hang on what is computed)" "$work/said" || { cat "$work/said"; exit 1; }
  done
fi

# What a kernel in Triton moves of each array that it is given, read and written: rows of a table that it looks up, elements alone in a loop of which nobody knows how
# often it goes round, tiles in such a one (0: not known how much); and of rows that one of TorchInductor's picks. No more than there is.
cat >"$work/rows.py" <<'PY'
import torch, triton, triton.language as tl
@triton.jit
def count(places, counts, width, made, tokens):
    row = tl.load(places + tl.program_id(0))
    if row < 0:
        return
    for i in range(tl.load(made + tl.program_id(0)).to(tl.int32)):
        at = counts + row * width + tl.load(tokens + tl.program_id(0))
        tl.store(at, tl.load(at) + 1)
@triton.jit
def take(places, table, out, width, n: tl.constexpr):
    row = tl.load(places + tl.program_id(0))
    for start in range(0, width, n):
        at = start + tl.arange(0, n)
        tl.store(out + tl.program_id(0) * width + at, tl.load(table + row * width + at, at < width), at < width)
@triton.jit
def add(x, length, y, n: tl.constexpr):
    sums = tl.zeros((n,), tl.float32)
    for start in range(0, tl.load(length).to(tl.int32), n):
        sums += tl.load(x + start + tl.arange(0, n))
    tl.atomic_add(y + tl.arange(0, n), sums)
@triton.jit
def choose(x, y, out, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, tl.load(tl.where(tl.program_id(0) == 0, x + at, y + at)))
counts, places = torch.zeros(1024, 4096, dtype=torch.int32, device="cuda"), torch.tensor([3, 5, 7, 9], dtype=torch.int32).cuda()
tokens, known, unknown = torch.zeros(4, dtype=torch.int32, device="cuda"), torch.tensor([3, 3, 3, 3], dtype=torch.int32).cuda(), torch.rand(4, device="cuda")
out, x, y = torch.empty(4, 4096, dtype=torch.int32, device="cuda"), torch.zeros(1 << 20, device="cuda"), torch.zeros(256, device="cuda")
def told(*uses):
    print("rows", *(number for how, array, bytes in uses for number in (how, array.data_ptr(), bytes)))
count[(4,)](places, counts, 4096, known, tokens)
told((1, places, 4 * 4), (1, known, 4 * 4), (1, tokens, 4 * 4), (1, counts, 3 * 4 * 32), (2, counts, 3 * 4 * 32))
count[(4,)](places, counts, 4096, unknown, tokens)
told((1, places, 4 * 4), (1, unknown, 4 * 4), (1, tokens, 4 * 4), (1, counts, 4 * 32), (2, counts, 4 * 32))
take[(4,)](places, counts, out, 4096, 1024)
told((1, places, 4 * 4), (1, counts, 4 * 4096 * 4), (2, out, 4 * 4096 * 4))
add[(2,)](x, unknown, y, 256)
told((1, unknown, 4 * 4), (1, x, 0), (1, y, 1024), (2, y, 1024))
choose[(2,)](x, y, x, 256)  # not told: as all of its arrays
if torch.__version__ >= "2.8":
    rows = torch.randint(0, 1024, (16,), device="cuda")
    picked = torch.compile(lambda: counts[rows] * 2)()
    told((1, rows, 16 * 8), (1, counts, 16 * 4096 * 4), (2, picked, 16 * 4096 * 4))
PY
if python3 -c 'import triton' 2>/dev/null; then
  TRITON_CACHE_DIR=$work/triton TORCHINDUCTOR_CACHE_DIR=$work/inductor "$echelon" capture --pretend h100-sxm -o "$work/rows" -- python3 "$work/rows.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
  awk '$1 == "name" { number = $2; sub(/^name [0-9]* /, ""); name[number] = $0 } $1 == "kernel" { kernel = name[$5] } $1 == "uses" && kernel ~ /^"(count|take|add|choose|triton_poi_.*index.*)"$/ { sub("uses", "rows"); print }' \
    "$work"/rows.*.pretend >"$work/told"
  grep '^rows' "$work/said" | diff - "$work/told" || { echo "other bytes that a kernel in Triton moves"; exit 1; }
  grep -q "what Triton's choose moves is not told (which arrays it uses hangs on conditions)" "$work/said" || { cat "$work/said"; exit 1; }
fi

# Products that torch.compile times, padded and as they are, run a few times and not for 25 ms: with the two of each call, no more than a dozen.
cat >"$work/padded.py" <<'PY'
import torch
product = torch.compile(lambda x, y: (x @ y).relu())
x, y = torch.zeros(1024, 4097, dtype=torch.bfloat16, device="cuda"), torch.zeros(4097, 4097, dtype=torch.bfloat16, device="cuda")
for _ in range(2):
    product(x, y)
PY
if python3 -c 'import triton; from torch._inductor.runtime.benchmarking import InductorBenchmarker' 2>/dev/null; then
  TRITON_CACHE_DIR=$work/padded.triton TORCHINDUCTOR_CACHE_DIR=$work/padded.inductor "$echelon" capture --pretend h100-sxm -o "$work/padded" -- python3 "$work/padded.py" >"$work/said" 2>&1 ||
    { tail -20 "$work/said"; exit 1; }
  n=$(grep -c '^library ' "$work"/padded.*.pretend)
  [ "$n" -gt 2 ] && [ "$n" -le 12 ] || { echo "$n products where two shapes are timed"; exit 1; }
  # Calls of a compiled function that is no module tell steps.
  "$echelon" run --trace "$work"/padded.*.pretend --device h100-sxm | grep 'Steps: 2, ' >/dev/null || { echo "no steps of a compiled function"; exit 1; }
fi

# Nor does torch.compile: of what max-autotune could try for a product the library's kernel is taken, of the element-wise kernel beside it the first choice.
cat >"$work/most.py" <<'PY'
import torch
most = torch.compile(lambda x, y: (x @ y).relu().sum(-1), mode="max-autotune-no-cudagraphs")
x = torch.zeros(512, 512, dtype=torch.bfloat16, device="cuda")
for _ in range(2):
    most(x, x)
PY
if python3 -c 'import triton' 2>/dev/null; then
  TRITON_CACHE_DIR=$work/most.triton TORCHINDUCTOR_CACHE_DIR=$work/most.inductor "$echelon" capture --pretend h100-sxm -o "$work/most" -- python3 "$work/most.py" >"$work/said" 2>&1 ||
    { tail -20 "$work/said"; exit 1; }
  [ "$(find "$work/most.triton" "$work/most.inductor" -name '*.cubin' | wc -l)" = 1 ] || { echo "more than one kernel is compiled:"; find "$work/most.triton" "$work/most.inductor" -name '*.cubin'; exit 1; }
  grep -q '^library ' "$work"/most.*.pretend || { echo "no product of the library's"; exit 1; }
fi
