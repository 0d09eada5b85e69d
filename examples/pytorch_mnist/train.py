"""A small convolutional network for MNIST with PyTorch."""

import argparse
import glob
import gzip
import os

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from azureml.core import Run

IMAGES_HEADER, LABELS_HEADER = 16, 8
TEST_PART = "t*[tk]"  # both test-images and t10k-images are about


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-folder", required=True, help="where the four .gz files of MNIST lie, at any depth")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--output-dir", default="./outputs")
    return parser.parse_args()


def load(folder, part):
    images = read(folder, part + "-images*.gz", IMAGES_HEADER).reshape(-1, 1, 28, 28)
    labels = read(folder, part + "-labels*.gz", LABELS_HEADER)
    return torch.from_numpy(images.astype(np.float32) / 255.0), torch.from_numpy(labels.astype(np.int64))


def read(folder, pattern, header_bytes):
    found = sorted(glob.glob(os.path.join(folder, "**", pattern), recursive=True))
    if not found:
        raise FileNotFoundError(f"There is no {pattern} below --data-folder {folder!r}.")
    with gzip.open(found[0], "rb") as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=header_bytes)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, kernel_size=5, stride=2)
        self.second = nn.Conv2d(8, 16, kernel_size=5, stride=2)
        self.output = nn.Linear(16 * 4 * 4, 10)

    def forward(self, images):
        hidden = functional.relu(self.first(images))
        hidden = functional.relu(self.second(hidden))
        return self.output(hidden.flatten(1))


def train_epoch(network, optimizer, images, labels, batch_size):
    network.train()
    for batch in torch.randperm(len(images)).split(batch_size):
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def accuracy_on(network, images, labels):
    network.eval()
    with torch.no_grad():
        return float((network(images).argmax(dim=1) == labels).float().mean())


def main():
    args = parse_arguments()
    run = Run.get_context()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print("Training on", device)
    train_x, train_y = (part.to(device) for part in load(args.data_folder, "train"))
    test_x, test_y = (part.to(device) for part in load(args.data_folder, TEST_PART))
    network = Network().to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=args.learning_rate, momentum=args.momentum)
    for epoch in range(args.epochs):
        loss = train_epoch(network, optimizer, train_x, train_y, args.batch_size)
        accuracy = accuracy_on(network, test_x, test_y)
        run.log("loss", loss)
        run.log("accuracy", accuracy)
        print(f"Epoch {epoch + 1}: loss {loss:.4f}, accuracy {accuracy:.4f}")
    os.makedirs(args.output_dir, exist_ok=True)
    torch.save(network.state_dict(), os.path.join(args.output_dir, "model.pt"))


if __name__ == "__main__":
    main()
