"""Trains a small transformer on the GPU of this rank and prints the median time of a step."""

import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

WARM_UP, STEPS = 20, 150

dist.init_process_group("nccl")
device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
torch.manual_seed(0)
layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0), 8).to(device)
model = nn.parallel.DistributedDataParallel(layers, device_ids=[device.index])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
# Large enough that the GPU, not the Python in front of it, sets the pace.
batch = torch.randn(64, 512, 1024, device=device)
taken = []
for step in range(WARM_UP + STEPS):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16):
        loss = (model(batch) - batch).square().mean()
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
    taken.append((time.perf_counter() - begun) * 1000)
    if step % 50 == 0:
        print("step", step, "loss", float(loss), flush=True)
visible = os.environ.get("CUDA_VISIBLE_DEVICES")
print(
    json.dumps(
        {"milliseconds": statistics.median(taken[WARM_UP:]), "visible": visible, "gpus": torch.cuda.device_count()}
    )
)
dist.destroy_process_group()
