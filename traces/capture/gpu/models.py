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


def trained(model, optimizer, compute, clipped=()):
    """`clipped`: parameters whose gradients are held to a norm of 1."""
    def step():
        compute(model).backward()
        if clipped:
            torch.nn.utils.clip_grad_norm_(clipped, 1.0)
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


def of(kind, inputs, optimizer=None, adapted=(), clipped=False, **config):
    """A model of transformers by its name there; `adapted`: the layers that get adapters of low rank (peft), all else frozen."""
    import transformers
    configure = {"T5ForConditionalGeneration": "T5Config", "WhisperForConditionalGeneration": "WhisperConfig", "CLIPModel": "CLIPConfig", "ModernBertForMaskedLM": "ModernBertConfig",
                 "MixtralForCausalLM": "MixtralConfig", "Gemma3ForCausalLM": "Gemma3TextConfig", "LlamaForCausalLM": "LlamaConfig"}[kind]
    with torch.device("cuda"):
        model = getattr(transformers, kind)(getattr(transformers, configure)(**config)).to(bf16)
    if adapted:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, target_modules=list(adapted)))
    feed, parameters = inputs(model), [p for p in model.parameters() if p.requires_grad]
    made = optimizer(parameters) if optimizer else torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    return trained(model, made, lambda model: model(**feed).loss, parameters if clipped else ())


def tokens(batch, length, words=32000, **more):
    def make(model):
        ids = torch.randint(words, (batch, length), device="cuda")
        return dict(input_ids=ids, labels=ids, **more)
    return make


def recurrent(batch, length, wide, layers):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.lstm, self.head = torch.nn.Embedding(32000, wide), torch.nn.LSTM(wide, wide, layers, batch_first=True), torch.nn.Linear(wide, 32000)

        def forward(self, ids):
            return self.head(self.lstm(self.embed(ids))[0])
    model, ids = Net().to("cuda", bf16), torch.randint(32000, (batch, length), device="cuda")
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda model: F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()))


def generated(batch, asked, tokens, **config):
    import transformers
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).to(bf16).eval()
    ids = torch.randint(32000, (batch, asked), device="cuda")
    return lambda: model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=True, top_k=50, pad_token_id=0)


def sounds(batch, frames, words):
    return lambda model: dict(input_features=torch.randn(batch, 80, frames, device="cuda", dtype=bf16), labels=torch.randint(50000, (batch, words), device="cuda"))


def pairs(batch):
    return lambda model: dict(input_ids=torch.randint(1, 49000, (batch, 77), device="cuda"), pixel_values=torch.randn(batch, 3, 224, 224, device="cuda", dtype=bf16), return_loss=True)


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
    # From here on: written on 2026-11-27 and predicted before any was measured
    "T5 base, 16 x 512": lambda: of("T5ForConditionalGeneration", tokens(16, 512), d_model=768, d_ff=3072, num_layers=12, num_heads=12, decoder_start_token_id=0),
    "Whisper small, 8 x 30 s": lambda: of("WhisperForConditionalGeneration", sounds(8, 3000, 128), d_model=768, encoder_layers=12, decoder_layers=12, encoder_attention_heads=12,
                                          decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072),
    "CLIP ViT-B/32, 256": lambda: of("CLIPModel", pairs(256)),
    "ModernBERT base, 32 x 512": lambda: of("ModernBertForMaskedLM", tokens(32, 512), attn_implementation="sdpa"),
    "Mixtral of 8 experts, 4 x 1024": lambda: of("MixtralForCausalLM", tokens(4, 1024, use_cache=False), hidden_size=1024, intermediate_size=3584, num_hidden_layers=8,
                                                 num_attention_heads=16, num_key_value_heads=8),
    "Gemma 3 1B, 2 x 1024": lambda: of("Gemma3ForCausalLM", tokens(2, 1024, use_cache=False), hidden_size=1152, intermediate_size=6912, num_hidden_layers=26, num_attention_heads=4,
                                       num_key_value_heads=1, head_dim=256, vocab_size=262144),
    "Llama 1B, adapters of rank 16, 4 x 2048": lambda: of("LlamaForCausalLM", tokens(4, 2048, use_cache=False), adapted=("q_proj", "v_proj"), clipped=True, **small),
    "Llama 1B, gradients clipped, SGD, 2 x 2048": lambda: of("LlamaForCausalLM", tokens(2, 2048, use_cache=False), optimizer=lambda p: torch.optim.SGD(p, lr=0.1), clipped=True, **small),
    "Llama 1B generated, 8 after 128, 32 tokens": lambda: generated(8, 128, 32, **small),
    "LSTM of 2 x 1024, 64 x 256": lambda: recurrent(64, 256, 1024, 2),
    "Swin-T, 128": lambda: image("swin_tiny_patch4_window7_224", 128),
    "RegNetY-8GF, 64": lambda: image("regnety_080", 64),
    "ViT-L/16 read, f16, 256": lambda: image("vit_large_patch16_224", 256, dtype=half, train=False),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=".")
    parser.add_argument("--plain", action="store_true", help="three steps, each in a range: somebody else captures")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--most", type=float, default=150, help="seconds after which no further model is begun")
    parser.add_argument("--only", help="the one of this name")
    parser.add_argument("--begin", type=int, default=0, help="number of the first one, from 0")
    parser.add_argument("--profile", action="store_true", help="two more steps of each under PyTorch's profiler: NAME.json.gz")
    parser.add_argument("--list", action="store_true", help="their names")
    args = parser.parse_args()
    if args.list:
        return print("\n".join(models))
    os.makedirs(args.out, exist_ok=True)
    torch.manual_seed(0)
    began, rows = time.monotonic(), []
    for name, make in list(models.items())[args.begin:]:
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
