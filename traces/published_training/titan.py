"""torchtitan's own train.py without its downloads: `titan.py CHECKOUT ARGS...`. A tokenizer as large as Llama 3's, and texts of one token; CHECKOUT of
April 2024, of December 2024 or of June 2025."""
import os
import runpy
import sys

import torch

checkout = sys.argv.pop(1)
sys.path.insert(0, checkout)


class Tokenizer:
    eos_id = 1

    def __init__(self, words=128256):
        self.n_words = words


class Texts(torch.utils.data.IterableDataset):
    def __init__(self, length, named):
        self.length, self.named = length, named

    def __iter__(self):
        while True:
            tokens = torch.ones(self.length, dtype=torch.int64)
            yield ({"input": tokens} if self.named else tokens), tokens


class Loader(torch.utils.data.DataLoader):
    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def contexts(policy):
    """What PyTorch of April 2024 called with a policy that says what is kept."""
    import torch.utils.checkpoint as checkpointing

    def decide(context, operator, *args, **kwargs):
        keeps = policy("recompute" if context.is_recompute else "forward", operator, *args, **kwargs)
        return checkpointing.CheckpointPolicy.MUST_SAVE if keeps else checkpointing.CheckpointPolicy.PREFER_RECOMPUTE

    return checkpointing.create_selective_checkpoint_contexts(decide)


if os.path.exists(os.path.join(checkout, "torchtitan", "lr_scheduling.py")):
    import torch.utils.checkpoint
    torch.utils.checkpoint._pt2_selective_checkpoint_context_fn_gen = contexts
    import torchtitan.datasets as datasets
    datasets.create_tokenizer = lambda kind, path: Tokenizer(32000 if kind == "sentencepiece" else 128256)
    datasets.dataloader_fn["c4"] = lambda dataset, path, tokenizer, batch, length, *rest: Loader(Texts(length, False), batch)
    script = os.path.join(checkout, "train.py")
elif os.path.exists(os.path.join(checkout, "train.py")):
    import torchtitan.datasets as datasets
    datasets.build_tokenizer = lambda *args: Tokenizer()
    datasets.build_hf_data_loader = lambda dataset, path, tokenizer, batch, length, *rest: Loader(Texts(length, False), batch)
    script = os.path.join(checkout, "train.py")
else:
    import dataclasses

    import torchtitan.models.llama3  # noqa: F401 it registers itself
    from torchtitan.protocols import train_spec

    def load(dp_world_size, dp_rank, tokenizer, job_config):
        return Loader(Texts(job_config.training.seq_len, True), job_config.training.local_batch_size)

    spec = train_spec.get_train_spec("llama3")
    train_spec._train_specs["llama3"] = dataclasses.replace(spec, build_tokenizer_fn=lambda config: Tokenizer(), build_dataloader_fn=load)
    script = os.path.join(checkout, "torchtitan", "train.py")
sys.argv[0] = script
runpy.run_path(script, run_name="__main__")
