"""A small transformer's training steps in PyTorch, captured: memory snapshot (gzipped pickle), profile (Kineto, .json.gz), or plain for `echelon capture`.

    python torch_step.py --out DIR                       snapshot.pickle.gz and profile.json.gz (on a CPU: the profile alone)
    echelon capture -o DIR/torch -- python torch_step.py --plain

Activations are kept in pinned host memory with --offload, so that there are copies both ways beside the kernels.
"""
import argparse
import contextlib
import gzip
import os
import pickle
import statistics
import time

import torch


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width) for _ in range(2)])
        self.qkv, self.merge = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + self.merge(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=".")
    parser.add_argument("--plain", action="store_true", help="only run: somebody else captures")
    parser.add_argument("--gpu", action="store_true", help="fail where PyTorch sees no GPU, rather than run on the CPU")
    parser.add_argument("--offload", action="store_true", help="activations kept for the way back lie in pinned host memory")
    parser.add_argument("--graph", action="store_true", help="every step is one launch of a CUDA graph; not with --offload")
    parser.add_argument("--profiled", action="store_true", help="with --plain: under PyTorch's profiler, whose records are dropped, to see what it costs")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    args = parser.parse_args()
    cuda = torch.cuda.is_available()
    if args.graph and (args.offload or not cuda):
        parser.error("--graph needs a GPU and no --offload")
    if args.gpu and not cuda:
        raise SystemExit(f"PyTorch {torch.__version__} sees no GPU here")
    device = torch.device("cuda" if cuda else "cpu")
    torch.manual_seed(0)
    os.makedirs(args.out, exist_ok=True)
    recorded = cuda and not args.plain
    if recorded:
        # Frames of Python alone, and not the whole history: a few MB.
        torch.cuda.memory._record_memory_history(max_entries=20000, stacks="python")
    model = torch.nn.Sequential(*[Block(args.width, args.width // 64) for _ in range(args.layers)]).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=args.graph)
    x = torch.randn(args.batch, args.length, args.width, device=device, dtype=torch.bfloat16)

    def work():
        loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    if args.graph:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(2):  # libraries loaded, optimizer's state made: neither can be within a graph
                work()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()

    def step(i):
        if args.graph:
            torch.cuda.nvtx.range_push(f"step {i}")
            graph.replay()
            torch.cuda.nvtx.range_pop()
            return
        keeps = torch.autograd.graph.save_on_cpu(pin_memory=cuda) if args.offload else contextlib.nullcontext()
        if cuda:
            torch.cuda.nvtx.range_push(f"step {i}")
        with keeps:
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if cuda:
            torch.cuda.nvtx.range_pop()
        return loss

    kinds = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if cuda else [])
    if args.plain:
        times = []
        with torch.profiler.profile(activities=kinds) if args.profiled else contextlib.nullcontext():
            for i in range(args.steps):
                start = time.perf_counter()
                step(i)
                if cuda:
                    torch.cuda.synchronize()
                times.append((time.perf_counter() - start) * 1e3)
        print("median step %.3f ms of %d, after the first" % (statistics.median(times[1:] or times), len(times)))
    else:
        step(0)  # what only the first does: libraries loaded, optimizer's state made
        if cuda:
            torch.cuda.synchronize()
        with torch.profiler.profile(activities=kinds, record_shapes=True, profile_memory=True) as profile:
            for i in range(1, args.steps):
                with torch.profiler.record_function(f"ProfilerStep#{i}"):
                    step(i)
            if cuda:
                torch.cuda.synchronize()
        profile.export_chrome_trace(os.path.join(args.out, "profile.json.gz"))
    if cuda:
        torch.cuda.synchronize()
    if recorded:
        with gzip.open(os.path.join(args.out, "snapshot.pickle.gz"), "wb") as file:
            pickle.dump(torch.cuda.memory._snapshot(), file)
    print("torch", torch.__version__, "on", torch.cuda.get_device_name() if cuda else "the CPU", "peak", torch.cuda.max_memory_allocated() if cuda else 0)


if __name__ == "__main__":
    main()
