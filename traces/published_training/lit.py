"""Lit-GPT's own finetune/lora.py of October 2023 without its downloads: `lit.py CHECKOUT MODEL MICROBATCH LONGEST`. Weights as they are made, texts about as
long as Alpaca's and one of LONGEST tokens, which comes first; three iterations."""
import importlib.util
import pathlib
import random
import sys

import torch

checkout, name, microbatch, longest = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sys.path.insert(0, checkout)
spec = importlib.util.spec_from_file_location("finetune_lora", checkout + "/finetune/lora.py")
lora = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lora)
lora.micro_batch_size, lora.gradient_accumulation_iters, lora.max_iters, lora.eval_iters = microbatch, 128 // microbatch, 3, 2
lengths = random.Random(0)


def text(length):
    tokens = torch.ones(length, dtype=torch.int64)
    return {"input_ids": tokens, "labels": tokens}


def texts(n):
    return [text(min(max(int(lengths.lognormvariate(4.5, 0.6)), 40), 800)) for _ in range(n)]


class Tokenizer:
    def __init__(self, directory):
        pass

    def encode(self, string, device=None):
        return torch.ones(40, dtype=torch.int64, device=device)

    def decode(self, tokens):
        return ""


train, held_out = texts(200) + [text(longest)], texts(50)
torch.load = lambda path, *rest, **more: train if "train" in str(path) else held_out
lora.Tokenizer = Tokenizer
lora.check_valid_checkpoint_dir = lora.load_checkpoint = lora.save_lora_checkpoint = lambda *rest, **more: None
lora.generate = lambda model, tokens, *rest, **more: tokens
lora.setup(checkpoint_dir=pathlib.Path("checkpoints") / name, out_dir=pathlib.Path("out/lora"), precision="bf16-true")
