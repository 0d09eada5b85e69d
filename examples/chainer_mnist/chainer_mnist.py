"""A two-layer perceptron for MNIST with Chainer, which fetches the images itself."""

import argparse
import gzip
import os

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import serializers

from azureml.core import Run

MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist/"
IMAGES_HEADER, LABELS_HEADER = 16, 8


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batchsize", type=int, default=128)
    parser.add_argument("--output_dir", default="./outputs")
    return parser.parse_args()


class Perceptron(chainer.Chain):
    def __init__(self, hidden=100, classes=10):
        super().__init__()
        with self.init_scope():
            self.first = L.Linear(None, hidden)
            self.second = L.Linear(hidden, hidden)
            self.output = L.Linear(hidden, classes)

    def forward(self, images):
        return self.output(F.relu(self.second(F.relu(self.first(images)))))


def load(part):
    images = read(part + "-images-idx3-ubyte.gz", IMAGES_HEADER).reshape(-1, 28 * 28)
    return images.astype(np.float32) / 255.0, read(part + "-labels-idx1-ubyte.gz", LABELS_HEADER).astype(np.int32)


def read(name, header_bytes):
    # chainer.datasets.get_mnist() would do, but it unpacks byte by byte, which takes longer than the training.
    with gzip.open(chainer.dataset.cached_download(MNIST + name), "rb") as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=header_bytes)


def train_epoch(model, optimizer, images, labels, batchsize):
    """Train once over all images; return the mean loss."""
    order = np.random.permutation(len(images))
    total = 0.0
    for start in range(0, len(order), batchsize):
        batch = order[start : start + batchsize]
        loss = F.softmax_cross_entropy(model(images[batch]), labels[batch])
        model.cleargrads()
        loss.backward()
        optimizer.update()
        total += float(loss.array) * len(batch)
    return total / len(order)


def accuracy_on(model, images, labels):
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        return float(F.accuracy(model(images), labels).array)


def main():
    args = parse_arguments()
    run = Run.get_context()
    np.random.seed(0)
    train_x, train_y = load("train")
    test_x, test_y = load("t10k")
    model = Perceptron()
    optimizer = chainer.optimizers.Adam()
    optimizer.setup(model)
    for epoch in range(args.epochs):
        loss = train_epoch(model, optimizer, train_x, train_y, args.batchsize)
        accuracy = accuracy_on(model, test_x, test_y)
        run.log("Loss", loss)
        run.log("Accuracy", accuracy)
        print(f"Epoch {epoch + 1}: loss {loss:.4f}, accuracy {accuracy:.4f}")
    os.makedirs(args.output_dir, exist_ok=True)
    serializers.save_npz(os.path.join(args.output_dir, "model.npz"), model)


if __name__ == "__main__":
    main()
