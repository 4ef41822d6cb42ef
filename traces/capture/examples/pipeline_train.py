"""Training steps of layers in a pipeline of as many stages as there are ranks; the schedule is named on the command line:

    echelon capture --pretend h100-sxm --gpus 2 -o step -- torchrun --nproc-per-node 2 pipeline_train.py 1f1b
    echelon run --trace step.*.pretend --device h100-sxm
"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining

SCHEDULES = {"gpipe": (pipelining.ScheduleGPipe, 1), "1f1b": (pipelining.Schedule1F1B, 1), "interleaved": (pipelining.ScheduleInterleaved1F1B, 2),
             "zero_bubble": (pipelining.ScheduleInterleavedZeroBubble, 2)}
WIDTH, TOKENS, MICRO_BATCHES, STEPS = 4096, 4096, 4, 3


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def main():
    schedule, chunks = SCHEDULES[sys.argv[1] if len(sys.argv) > 1 else "1f1b"]
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group(sys.argv[2] if len(sys.argv) > 2 else "nccl")
    torch.set_default_dtype(torch.bfloat16)
    with device:
        stages = [pipelining.PipelineStage(Layer(), rank + chunk * world, chunks * world, device) for chunk in range(chunks)]
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    pipeline = schedule(stages if chunks > 1 else stages[0], MICRO_BATCHES, loss_fn=nn.functional.mse_loss)
    batch = torch.randn(MICRO_BATCHES * TOKENS, WIDTH, device=device)
    for _ in range(STEPS):
        optimizer.zero_grad()
        pipeline.step(*([batch] if rank == 0 else []), target=batch if rank == world - 1 else None)
        optimizer.step()
    dist.destroy_process_group()


main()
