"""Whole models in PyTorch on a GPU: milliseconds of a step by the clock, medians after warm-up, and what PyTorch's allocator held.

    python models.py --out DIR [--only NAME]                                          DIR/models.csv
    echelon capture --pretend h100-sxm -o vit -- python models.py --plain --only ViT  the same without a GPU: three steps in ranges "step 0" to "step 2"

Weights are random, data are made on the device, nothing is loaded. The list was written, and predicted, before any of it was measured (validation/gpu_times.md).
"""
import argparse
import gc
import os
import statistics
import time

import torch
import torch.nn.functional as F

bf16, half = torch.bfloat16, torch.float16


def trained(model, optimizer, compute):
    def step():
        compute(model).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def image(name, batch, size=224, layout=torch.channels_last, dtype=bf16, train=True, **more):
    import timm
    model = timm.create_model(name, **more).cuda().to(memory_format=layout)
    x = torch.randn(batch, 3, size, size, device="cuda").contiguous(memory_format=layout)
    y = torch.randint(1000, (batch,), device="cuda")
    if not train:
        model.eval()

        def infer():
            with torch.no_grad(), torch.autocast("cuda", dtype):
                model(x)
        return infer

    def compute(model):
        with torch.autocast("cuda", dtype):
            return F.cross_entropy(model(x), y)
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), compute)


def language(kind, batch, length, optimizer="fused", again=False, train=True, dtype=bf16, **config):
    import transformers
    make, configure = {"gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config), "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig),
                       "bert": (transformers.BertForMaskedLM, transformers.BertConfig), "qwen3": (transformers.Qwen3ForCausalLM, transformers.Qwen3Config)}[kind]
    config = configure(use_cache=False, attn_implementation="sdpa", **config)
    with torch.device("cuda"):
        model = make(config).to(dtype)
    ids = torch.randint(config.vocab_size, (batch, length), device="cuda")
    if again:
        model.gradient_checkpointing_enable()
    if not train:
        model.eval()

        def infer():
            with torch.no_grad():
                model(ids)
        return infer
    made = {"fused": lambda p: torch.optim.AdamW(p, lr=1e-4, fused=True), "lists": lambda p: torch.optim.AdamW(p, lr=1e-4)}[optimizer](model.parameters())
    return trained(model, made, lambda model: model(ids, labels=ids).loss)


def decoding(batch, held, steps=16, **config):
    """Tokens one after another, keys and values of what was before kept."""
    import transformers
    config = transformers.LlamaConfig(attn_implementation="sdpa", **config)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).to(bf16).eval()
    ids, last = torch.randint(config.vocab_size, (batch, held), device="cuda"), torch.randint(config.vocab_size, (batch, 1), device="cuda")
    with torch.no_grad():
        kept = transformers.DynamicCache(config=config)
        model(ids, past_key_values=kept, logits_to_keep=1)

    def step():
        with torch.no_grad():
            for _ in range(steps):
                model(last, past_key_values=kept, logits_to_keep=1)
            kept.crop(held)
    return step


def activations(batch, length, wide, layers):
    """The step of torch_step.py: activations kept in pinned memory."""
    import torch_step
    model = torch.nn.Sequential(*[torch_step.Block(wide, wide // 64) for _ in range(layers)]).to("cuda", bf16)
    x = torch.randn(batch, length, wide, device="cuda", dtype=bf16)

    def compute(model):
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return model(x).float().square().mean()
    return trained(model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True), compute)


small = dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256)
models = {
    "GPT-2 124M, 16 x 1024": lambda: language("gpt2", 16, 1024),
    "GPT-2 355M, 4 x 1024, optimizer of lists": lambda: language("gpt2", 4, 1024, "lists", n_embd=1024, n_layer=24, n_head=16),
    "Llama 1B, 2 x 2048": lambda: language("llama", 2, 2048, **small),
    "Llama 1B, 4 x 4096, recomputed": lambda: language("llama", 4, 4096, again=True, **small),
    "Llama 1B read, 8 x 2048": lambda: language("llama", 8, 2048, train=False, **small),
    "Llama 1B decoded, 32 after 1024, 16 tokens": lambda: decoding(32, 1024, **small),
    "Qwen3 0.6B, 4 x 2048": lambda: language("qwen3", 4, 2048, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128, vocab_size=151936),
    "BERT base, 64 x 128": lambda: language("bert", 64, 128),
    "BERT large read, f16, 32 x 512": lambda: language("bert", 32, 512, train=False, dtype=half, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
    "ResNet-50, 256": lambda: image("resnet50", 256),
    "ResNet-50, channels first, f16, 64": lambda: image("resnet50", 64, layout=torch.contiguous_format, dtype=half),
    "ResNet-50 read, 512": lambda: image("resnet50", 512, train=False),
    "ViT-B/16, 128": lambda: image("vit_base_patch16_224", 128),
    "ConvNeXt-T, 128": lambda: image("convnext_tiny", 128),
    "EfficientNet-B0, 256": lambda: image("efficientnet_b0", 256),
    "blocks 8 x 512 x 1024, activations on the host": lambda: activations(8, 512, 1024, 4),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=".")
    parser.add_argument("--plain", action="store_true", help="three steps, each in a range: somebody else captures")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--most", type=float, default=150, help="seconds after which no further model is begun")
    parser.add_argument("--only", help="those whose names hold this")
    parser.add_argument("--profile", action="store_true", help="two more steps of each under PyTorch's profiler: NAME.json.gz")
    parser.add_argument("--list", action="store_true", help="their names")
    args = parser.parse_args()
    if args.list:
        return print("\n".join(models))
    os.makedirs(args.out, exist_ok=True)
    torch.manual_seed(0)
    began, rows = time.monotonic(), []
    for name, make in models.items():
        if args.only and args.only != name:
            continue
        if time.monotonic() - began > args.most:
            rows.append((name, "", "", "", "", "left, no time"))
            continue
        step = None
        try:
            torch.cuda.reset_peak_memory_stats()
            step = make()
            if args.plain:
                for i in range(3):
                    torch.cuda.nvtx.range_push("step %d" % i)
                    step()
                    torch.cuda.nvtx.range_pop()
                torch.cuda.synchronize()
                print(name, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), flush=True)
                return
            for _ in range(3):
                step()
            torch.cuda.synchronize()
            # One by one, as a loss that is looked at makes them, and in a row, where the host may go ahead.
            times = []
            for _ in range(args.steps):
                start = time.perf_counter()
                step()
                torch.cuda.synchronize()
                times.append((time.perf_counter() - start) * 1e3)
            start = time.perf_counter()
            for _ in range(args.steps):
                step()
            torch.cuda.synchronize()
            row = (time.perf_counter() - start) * 1e3 / args.steps
            if args.profile:
                with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA], record_shapes=True) as profile:
                    for i in range(2):
                        with torch.profiler.record_function("step %d" % i):
                            step()
                    torch.cuda.synchronize()
                profile.export_chrome_trace(os.path.join(args.out, "%s.json.gz" % "".join(c if c.isalnum() or c in "-." else "_" for c in name)))
            rows.append((name, "%.3f" % statistics.median(times), "%.3f" % row, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), ""))
        except Exception as error:
            rows.append((name, "", "", "", "", str(error).split("\n")[0].replace(",", ";")[:100]))
        print(*rows[-1], flush=True)
        del step
        gc.collect()
        torch.cuda.empty_cache()
    with open(os.path.join(args.out, "models.csv"), "w") as file:
        file.write("# PyTorch %s on %s: milliseconds a step, waited for and in a row; bytes by PyTorch's allocator\n" % (torch.__version__, torch.cuda.get_device_name()))
        file.write("model,step_ms,in_a_row_ms,allocated,reserved,failure\n")
        for row in rows:
            file.write(",".join('"%s"' % x if "," in str(x) else str(x) for x in row) + "\n")


if __name__ == "__main__":
    main()
