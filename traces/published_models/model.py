"""The models that the NeuSight artifact (sitar-lab/NeuSight, ASPLOS 2025) timed, in f32 with plain attention, forward alone or with its gradients:
model.py MODEL inf|train BATCH LENGTH. Weights are as they are allocated; each pass is a range "step N"."""
import sys

import torch
from transformers import (BertConfig, BertForPreTraining, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel, OPTConfig, OPTForCausalLM)


def gpt2(width, heads, layers, length):
    return GPT2LMHeadModel, GPT2Config(n_embd=width, n_head=heads, n_layer=layers, n_positions=length)


def main():
    name, mode, batch, length = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    train = mode == "train"
    bert = BertForPreTraining if train else BertForSequenceClassification
    kind, config = {
        "bert_large": (bert, BertConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16)),
        "gpt2_large": gpt2(1280, 20, 36, 1024),
        "gpt3_xl": gpt2(3072, 24, 24, 2048),
        "gpt3_27": gpt2(2560, 32, 32, 2048),
        "opt_13": (OPTForCausalLM, OPTConfig(hidden_size=2048, ffn_dim=8192, num_hidden_layers=24, num_attention_heads=32, word_embed_proj_dim=2048)),
    }[name]
    with torch.device("meta"):
        model = kind._from_config(config, attn_implementation="eager")
    model = model.to_empty(device="cuda").train(train)
    ids = torch.ones(batch, length, dtype=torch.int64, device="cuda")
    for step in range(2):
        torch.cuda.nvtx.range_push(f"step {step}")
        if train:
            result = model(ids)
            logits = result["prediction_logits"] if name.startswith("bert") else result["logits"]
            loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), ids.view(-1))
            result = logits = None
            loss.backward()
        else:
            with torch.no_grad():
                model(ids)
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()


main()
