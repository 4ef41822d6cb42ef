"""Image models as timm's benchmark.py runs them, f16 autocast: image.py MODEL infer|train BATCH SIZE [first]; channels last, or first. Weights are as they are
allocated; each pass or step is a range "step N". The published training is of PyTorch 1.12, without fused attention: TIMM_FUSED_ATTN=0.
Layer norms of the published passes are taken for f16 ones (--fast-norm)."""
import sys

import timm
import timm.layers
import torch


def main():
    name, mode, batch, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    train = mode == "train"
    layout = torch.contiguous_format if sys.argv[5:] == ["first"] else torch.channels_last
    torch.backends.cudnn.benchmark = True
    timm.layers.set_fast_norm(not train)
    with torch.device("meta"):
        model = timm.create_model(name)
    model = model.to_empty(device="cuda").to(memory_format=layout).train(train)
    images = torch.empty(batch, 3, size, size, device="cuda").contiguous(memory_format=layout)
    labels = torch.zeros(batch, dtype=torch.long, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4) if train else None
    for step in range(2):
        torch.cuda.nvtx.range_push(f"step {step}")
        with torch.inference_mode(not train), torch.autocast("cuda", torch.float16):
            result = model(images)
        if train:
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.float16):
                loss = torch.nn.functional.cross_entropy(result, labels)
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()


main()
