"""torchtitan's own train.py without its downloads: `titan.py CHECKOUT ARGS...`. A tokenizer as large as Llama 3's, and texts of one token; CHECKOUT of
December 2024 or of June 2025."""
import os
import runpy
import sys

import torch

checkout = sys.argv.pop(1)
sys.path.insert(0, checkout)


class Tokenizer:
    n_words = 128256
    eos_id = 128001


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


if os.path.exists(os.path.join(checkout, "train.py")):
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
