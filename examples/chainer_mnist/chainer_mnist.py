"""A two-layer perceptron for MNIST with Chainer, which fetches the images itself."""
import argparse
import os

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from azureml.core import Run
from chainer import serializers


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batchsize", type=int, default=128)
    parser.add_argument("--output_dir", default="./outputs")
    return parser.parse_args()


class Perceptron(chainer.Chain):
    def __init__(self, hidden=100, classes=10):
        super(Perceptron, self).__init__()
        with self.init_scope():
            self.first = L.Linear(None, hidden)
            self.second = L.Linear(hidden, hidden)
            self.output = L.Linear(hidden, classes)

    def forward(self, images):
        return self.output(F.relu(self.second(F.relu(self.first(images)))))


def as_arrays(dataset):
    images, labels = zip(*dataset)
    return np.stack(images), np.array(labels)


def train_epoch(model, optimizer, images, labels, batchsize):
    """Train once over all images; return the mean loss."""
    order = np.random.permutation(len(images))
    total = 0.0
    for start in range(0, len(order), batchsize):
        batch = order[start:start + batchsize]
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
    training, test = chainer.datasets.get_mnist()
    train_x, train_y = as_arrays(training)
    test_x, test_y = as_arrays(test)
    model = Perceptron()
    optimizer = chainer.optimizers.Adam()
    optimizer.setup(model)
    for epoch in range(args.epochs):
        loss = train_epoch(model, optimizer, train_x, train_y, args.batchsize)
        accuracy = accuracy_on(model, test_x, test_y)
        run.log("Loss", loss)
        run.log("Accuracy", accuracy)
        print("Epoch %d: loss %.4f, accuracy %.4f" % (epoch + 1, loss, accuracy))
    os.makedirs(args.output_dir, exist_ok=True)
    serializers.save_npz(os.path.join(args.output_dir, "model.npz"), model)


if __name__ == "__main__":
    main()
