"""torchtune's own recipes without their downloads: `tune.py CHECKOUT RECIPE CONFIG KEY=VALUE...`. Weights as they are allocated, texts about as long as
Alpaca's; three steps."""
import importlib
import importlib.util
import random
import sys

import torch


class Tokenizer:
    pad_id = 128004

    def __init__(self, max_seq_len=None):
        self.max_seq_len = max_seq_len


class Texts(torch.utils.data.Dataset):
    def __init__(self, n=3000):
        lengths = random.Random(0)
        self.lengths = [min(max(int(lengths.lognormvariate(4.5, 0.6)), 40), 1000) for _ in range(n)]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        tokens = list(range(1, self.lengths[i] + 1))
        return {"tokens": tokens, "labels": list(tokens)}


def dataset(tokenizer, packed=False):
    from torchtune.datasets import PackedDataset
    return PackedDataset(Texts(), max_seq_len=tokenizer.max_seq_len) if packed else Texts()


class Checkpointer:
    def __init__(self, **settings):
        pass

    def load_checkpoint(self, *rest, **more):
        return {"model": {}}

    def save_checkpoint(self, *rest, **more):
        pass


def model(builder, **settings):
    path, name = builder.rsplit(".", 1)
    made = getattr(importlib.import_module(path), name)(**settings)
    made.load_state_dict = lambda *rest, **more: torch.nn.modules.module._IncompatibleKeys([], [])
    return made


def load_sharded(model, state, device, *rest, **more):
    model.to_empty(device=device)
    return [], []


def main():
    from omegaconf import OmegaConf
    checkout, recipe, name = sys.argv[1:4]
    config = OmegaConf.load("%s/recipes/configs/%s.yaml" % (checkout, name))
    settings = {key: value for key, value in config.model.items() if key != "_component_"}
    OmegaConf.update(config, "model", {"_component_": "tune.model", "builder": config.model._component_, **settings}, merge=False)
    config.tokenizer = {"_component_": "tune.Tokenizer", "max_seq_len": None}
    config.dataset = {"_component_": "tune.dataset", "packed": False}
    config.checkpointer = {"_component_": "tune.Checkpointer", "model_type": "LLAMA3"}
    config.metric_logger = {"_component_": "torchtune.training.metric_logging.StdoutLogger"}
    config.epochs = 1
    config.max_steps_per_epoch = 3
    config.gradient_accumulation_steps = 1
    config.log_peak_memory_stats = True
    config = OmegaConf.merge(config, OmegaConf.from_dotlist(sys.argv[4:]))
    spec = importlib.util.spec_from_file_location("recipe", "%s/recipes/%s.py" % (checkout, recipe))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if recipe.endswith("distributed"):
        torch.distributed.init_process_group("nccl")
        module.training.load_from_full_model_state_dict = load_sharded
        module.validate_missing_and_unexpected_for_lora = lambda **more: None
    kind = next(value for key, value in vars(module).items() if key.endswith(("RecipeSingleDevice", "RecipeDistributed")))
    run = kind(cfg=config)
    run.setup(cfg=config)
    run.train()


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    main()
