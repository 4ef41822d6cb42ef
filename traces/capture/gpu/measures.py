"""What saves memory or time, done to PyTorch programs by hand: milliseconds of a step and PyTorch's memory with each measure, and the largest batch that there is room for.

    python measures.py --out DIR                                                                    DIR/measures.csv, DIR/largest.csv
    echelon capture --pretend h200 -o gpt -- python measures.py --plain --only gpt                  without a GPU: echelon advise --trace gpt.*.pretend tells the others
    echelon capture --pretend h200 -o gpt -- python measures.py --plain --only gpt --measure half   the measure itself, captured
    echelon capture --pretend h200 --find rows=1..512 -o gpt -- python measures.py --plain --only gpt --measure autocast --rows {rows}

Every row has a process of its own. What each was told before: validation/what_ifs.md.
"""
import argparse
import contextlib
import gc
import os
import statistics
import sys
import time

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # so that whether there is a GPU can be asked before processes part
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_step import Block

bf16 = torch.bfloat16


class GPT(nn.Module):
    def __init__(self, layers, wide, words):
        super().__init__()
        self.words, self.again = words, False
        self.embed, self.blocks, self.head = nn.Embedding(words, wide), nn.ModuleList([Block(wide, wide // 64) for _ in range(layers)]), nn.Linear(wide, words)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return self.head(x)

    def loss(self, rows):
        ids = rows["ids"]
        return F.cross_entropy(self(ids).flatten(0, 1).float(), ids.flatten())

    def checkpoint(self):
        self.again = True

    def parts(self):
        return list(self.blocks)


class Level(nn.Module):
    def __init__(self, before, wide):
        super().__init__()
        self.convolutions = nn.Sequential(nn.Conv2d(before, wide, 3, padding=1), nn.GroupNorm(8, wide), nn.SiLU(), nn.Conv2d(wide, wide, 3, padding=1), nn.GroupNorm(8, wide), nn.SiLU())

    def forward(self, x):
        return self.convolutions(x)


class UNet(nn.Module):
    """Of a diffusion model's kind: four levels down and up, what went down joined on the way up."""

    def __init__(self, wide):
        super().__init__()
        widths, self.again = [wide, 2 * wide, 4 * wide, 4 * wide], False
        self.down = nn.ModuleList([Level(a, b) for a, b in zip([4] + widths, widths)])
        self.up = nn.ModuleList([Level(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1])])
        self.last = nn.Conv2d(wide, 4, 1)

    def run(self, level, x):
        return checkpoint(level, x, use_reentrant=False) if self.again else level(x)

    def forward(self, x):
        kept = []
        for level in self.down:
            x = self.run(level, F.avg_pool2d(x, 2) if kept else x)
            kept.append(x)
        for level, beside in zip(self.up, kept[-2::-1]):
            x = self.run(level, torch.cat([F.interpolate(x, scale_factor=2.0), beside], 1))
        return self.last(x)

    def loss(self, rows):
        return F.mse_loss(self(rows["noisy"]).float(), rows["noise"].float())

    def checkpoint(self):
        self.again = True

    def parts(self):
        return list(self.down) + list(self.up)


class Image(nn.Module):
    def __init__(self, name):
        super().__init__()
        import timm
        self.model = timm.create_model(name)

    def loss(self, rows):
        return F.cross_entropy(self.model(rows["x"]).float(), rows["y"])

    def checkpoint(self):
        self.model.set_grad_checkpointing()

    def parts(self):
        return list(self.model.blocks) if hasattr(self.model, "blocks") else [b for s in (self.model.layer1, self.model.layer2, self.model.layer3, self.model.layer4) for b in s]


class Llama(nn.Module):
    def __init__(self, **config):
        super().__init__()
        import transformers
        self.model = transformers.LlamaForCausalLM(transformers.LlamaConfig(use_cache=False, attn_implementation="sdpa", **config))

    def loss(self, rows):
        return self.model(rows["ids"], labels=rows["ids"]).loss

    def checkpoint(self):
        self.model.gradient_checkpointing_enable()

    def parts(self):
        return list(self.model.model.layers)


class Whole(nn.Module):
    """Model and loss, for what takes hold of a module's forward pass."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, rows):
        return self.model.loss(rows)


def ids(words, length):
    return lambda rows: dict(ids=torch.randint(words, (rows, length), device="cuda"))


def images(rows):
    return dict(x=torch.randn(rows, 3, 224, 224, device="cuda"), y=torch.randint(1000, (rows,), device="cuda"))


def noise(rows):
    return dict(noisy=torch.randn(rows, 4, 128, 128, device="cuda"), noise=torch.randn(rows, 4, 128, 128, device="cuda"))


# name: the model, what it is given, rows, what holds as it is, measures
programs = {
    "vit": (lambda: Image("vit_base_patch16_224"), images, 128, ("autocast",), "half twice parts checkpoint save_on_cpu fused bfloat16 optimizer_on_host"),
    "resnet": (lambda: Image("resnet50"), images, 128, (), "half twice parts checkpoint save_on_cpu channels_last autocast channels_last+autocast"),
    "unet": (lambda: UNet(128), noise, 8, ("autocast",), "half twice parts checkpoint save_on_cpu channels_last fused"),
    "gpt": (lambda: GPT(12, 1024, 32000), ids(32000, 1024), 8, (),
            "half twice parts checkpoint checkpoint+twice save_on_cpu fused foreach=false tf32 autocast bfloat16 optimizer_on_host sharded_on_host autocast+fused+checkpoint compile autocast+fused+compile"),
    "llama": (lambda: Llama(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256), ids(128256, 2048), 2, ("bfloat16",),
              "half twice parts checkpoint checkpoint+twice save_on_cpu fused foreach=false optimizer_on_host sharded_on_host"),
}
# programs whose largest batch is looked for: measures, where to begin
largest = [("gpt", "autocast", 64), ("vit", "", 1024), ("llama", "checkpoint", 48)]


class OnHost:
    """AdamW on the processor: gradients come to pinned memory while the backward pass goes on, weights go back. As torchao's CPUOffloadOptimizer."""

    def __init__(self, parameters, stream):
        self.stream, self.pairs, self.events = stream, [], {}
        for p in parameters:
            host = torch.empty_like(p, device="cpu", pin_memory=True)
            host.copy_(p.detach())
            host.grad = torch.empty_like(p, device="cpu", pin_memory=True)
            self.pairs.append((p, host, torch.optim.AdamW([host], lr=1e-4, fused=True)))
            p.register_post_accumulate_grad_hook(self.bring(host))

    def bring(self, host):
        def hook(p):
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                host.grad.copy_(p.grad, non_blocking=True)
            p.grad.record_stream(self.stream)
            self.events[p] = self.stream.record_event()
            p.grad = None
        return hook

    def step(self):
        for p, host, optimizer in self.pairs:
            if p in self.events:
                self.events.pop(p).synchronize()
                optimizer.step()
                with torch.cuda.stream(self.stream):
                    p.detach().copy_(host, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)

    def zero_grad(self, set_to_none=True):
        pass


def build(program, measures, rows=None):
    make, data, usual, always, _ = programs[program]
    measures = set(always) | set(m for m in measures.split("+") if m)
    rows = rows or usual
    rows = rows // 2 if "half" in measures else rows * 2 if "twice" in measures else rows
    torch.manual_seed(0)
    if "tf32" in measures:
        torch.set_float32_matmul_precision("high")
    with torch.device("cuda"):
        model = make()
    kind = bf16 if "bfloat16" in measures else torch.float32
    layout = torch.channels_last if "channels_last" in measures else torch.preserve_format
    model.to(kind)
    if "channels_last" in measures:
        model.to(memory_format=layout)
    batch = {k: v.to(kind).contiguous(memory_format=layout) if v.is_floating_point() and v.dim() == 4 else v for k, v in data(rows).items()}
    if "checkpoint" in measures:
        model.checkpoint()
    if "sharded_on_host" in measures:
        from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533", RANK="0", WORLD_SIZE="1")
        torch.distributed.init_process_group("cpu:gloo,cuda:nccl")
        for part in model.parts():
            fully_shard(part, offload_policy=CPUOffloadPolicy())
        run = fully_shard(Whole(model), offload_policy=CPUOffloadPolicy())
    else:
        run = torch.compile(Whole(model)) if "compile" in measures else model.loss
    if "optimizer_on_host" in measures:
        optimizer = OnHost(model.parameters(), torch.cuda.Stream())
    else:
        how = dict(fused=True) if "fused" in measures else dict(foreach=False) if "foreach=false" in measures else {}
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **how)

    def step():
        parts = [{k: v[i::2] for k, v in batch.items()} for i in range(2)] if "parts" in measures else [batch]
        for part in parts:
            with torch.autograd.graph.save_on_cpu(pin_memory=True) if "save_on_cpu" in measures else contextlib.nullcontext():
                with torch.autocast("cuda", bf16) if "autocast" in measures else contextlib.nullcontext():
                    loss = run(part)
            (loss / len(parts)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def apart(function, *args):
    """`function` in a process of its own, which has no CUDA yet; the line that it returns."""
    sys.stdout.flush()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            line = function(*args)
        except Exception as error:  # an out of memory tells what the process holds beside PyTorch's allocator
            line = ",,,," + (str(error).split("\n")[0].replace(",", ";")[:400] or type(error).__name__)
        os.write(write, line.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as lines:
        line = lines.read()
    os.waitpid(child, 0)
    return line or ",,,,ended"


def measured(program, measures, steps, most, rows=None):
    step, began = build(program, measures, rows), time.monotonic()
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    times = []
    # One by one, as a loss that is looked at makes them, and in a row, where the host may go ahead.
    while len(times) < steps and (len(times) < 3 or time.monotonic() - began < most):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    start = time.perf_counter()
    for _ in times:
        step()
    torch.cuda.synchronize()
    row = (time.perf_counter() - start) * 1e3 / len(times)
    return "%.3f,%.3f,%d,%d," % (statistics.median(times), row, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())


def fits(program, measures, rows):
    step = build(program, measures, rows)
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    return ",,%d,%d," % (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())


def find(program, measures, rows, until):
    """The largest number of rows with which three steps run, and that with one more they do not; None for what no time was left for."""
    fit, fail = 0, None
    while fail is None or fail - fit > max(1, fit // 200):
        if time.monotonic() > until:
            return fit, fail
        line = apart(fits, program, measures, rows)
        print("%s %s, %d rows: %s" % (program, measures, rows, line), flush=True)
        if line.endswith(","):
            fit, rows = rows, (rows + fail) // 2 if fail else rows * 5 // 4
        else:
            fail, rows = rows, (fit + rows) // 2 if fit else rows * 4 // 5
    return fit, fail


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=".")
    parser.add_argument("--plain", action="store_true", help="three steps, each in a range: somebody else captures")
    parser.add_argument("--only", help="the program of this name")
    parser.add_argument("--measure", default="", help="with --plain: its measures, joined by +")
    parser.add_argument("--rows", type=int, help="with --plain: rows of its batch")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--most", type=float, default=150, help="seconds after which nothing is begun")
    parser.add_argument("--list", action="store_true", help="programs and their measures")
    args = parser.parse_args()
    if args.list:
        return print("\n".join("%s: %s" % (name, p[4]) for name, p in programs.items()))
    if args.plain:
        step = build(args.only, args.measure, args.rows)
        for i in range(3):
            torch.cuda.nvtx.range_push("step %d" % i)
            step()
            torch.cuda.nvtx.range_pop()
        torch.cuda.synchronize()
        return print(args.only, args.measure, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), flush=True)
    os.makedirs(args.out, exist_ok=True)
    began = time.monotonic()
    with contextlib.suppress(ImportError):  # once for all processes
        import timm
        import transformers.models.llama.modeling_llama
    names = [args.only] if args.only else list(programs)
    # Whatever compiles comes last: it takes longest.
    cases = [(name, m) for slow in (False, True) for name in names for m in [""] + programs[name][4].split() if ("compile" in m) == slow]
    head = "# PyTorch %s: milliseconds a step, waited for and in a row; bytes by PyTorch's allocator\nprogram,measures,step_ms,in_a_row_ms,allocated,reserved,failure\n" % torch.__version__
    with open(os.path.join(args.out, "measures.csv"), "w") as file:
        file.write(head)
        for name, m in cases:
            line = apart(measured, name, m, args.steps, 2.0) if time.monotonic() - began < args.most * 0.7 else ",,,,left; no time"
            print("%5.1f s: %s,%s,%s" % (time.monotonic() - began, name, m, line), flush=True)
            file.write("%s,%s,%s\n" % (name, m, line))
            file.flush()
    with open(os.path.join(args.out, "largest.csv"), "w") as file:
        file.write("# rows with which three steps run, and the least found with which they do not\nprogram,measures,fit,fail\n")
        for name, m, rows in largest:
            if name in names:
                fit, fail = find(name, m, rows, began + args.most)
                file.write("%s,%s,%s,%s\n" % (name, m, fit or "", fail or ""))
                file.flush()


if __name__ == "__main__":
    main()
