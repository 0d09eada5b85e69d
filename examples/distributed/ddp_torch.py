"""A perceptron for MNIST, trained by several processes with PyTorch's DistributedDataParallel."""

import argparse
import os

import torch
import torch.distributed as dist
from mnist import load_test, load_training, share
from torch import nn
from torch.nn import functional

from azureml.core import Run

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data-folder", required=True)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--learning-rate", type=float, default=0.05)
args = parser.parse_args()

run = Run.get_context()
backend = "nccl" if torch.cuda.is_available() else "gloo"
dist.init_process_group(backend)  # from MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, which the platform sets
rank, size = dist.get_rank(), dist.get_world_size()
local_rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local_rank) if backend == "nccl" else torch.device("cpu")
torch.manual_seed(rank)
images, labels = (torch.from_numpy(part).to(device) for part in share(*load_training(args.data_folder), rank, size))
print(f"Rank {rank} of {size} trains on {device} with {len(images)} images")

network = nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10)).to(device)
model = nn.parallel.DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate, momentum=0.9)
for epoch in range(args.epochs):
    for batch in torch.randperm(len(images)).split(args.batch_size):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
    run.log("loss", float(loss.detach()))
    if rank == 0:
        test_images, test_labels = (torch.from_numpy(part).to(device) for part in load_test(args.data_folder))
        with torch.no_grad():
            accuracy = float((network(test_images).argmax(dim=1) == test_labels).float().mean())
        run.log("accuracy", accuracy)
        print(f"Epoch {epoch + 1}: accuracy {accuracy:.4f}")
if rank == 0:
    os.makedirs("outputs", exist_ok=True)
    torch.save(network.state_dict(), "outputs/model.pt")
dist.destroy_process_group()
