"""A perceptron for MNIST, trained by several ranks with ChainerMN over MPI."""

import argparse
import os

import chainer
import chainer.functions as F
import chainer.links as L
import chainermn
import numpy as np
from chainer import serializers
from mnist import load_test, load_training, share

from azureml.core import Run

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data-folder", required=True)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=64)
args = parser.parse_args()

run = Run.get_context()
comm = chainermn.create_communicator("naive")  # "pure_nccl" with a GPU for each rank
images, labels = share(*load_training(args.data_folder), rank=comm.rank, size=comm.size)
labels = labels.astype(np.int32)
print("Rank", comm.rank, "of", comm.size, "trains with", len(images), "images")

model = chainer.Sequential(L.Linear(784, 300), F.relu, L.Linear(300, 100), F.relu, L.Linear(100, 10))
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), comm)
optimizer.setup(model)
batches = len(images) // args.batch_size
for epoch in range(args.epochs):
    for batch in np.random.permutation(batches * args.batch_size).reshape(batches, args.batch_size):
        loss = F.softmax_cross_entropy(model(images[batch]), labels[batch])
        model.cleargrads()
        loss.backward()
        optimizer.update()
    if comm.rank == 0:
        test_x, test_y = load_test(args.data_folder)
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            accuracy = float(F.accuracy(model(test_x), test_y.astype(np.int32)).array)
        run.log("accuracy", accuracy)
        print("Epoch {}: accuracy {:.4f}".format(epoch + 1, accuracy))
if comm.rank == 0:
    os.makedirs("outputs", exist_ok=True)
    serializers.save_npz("outputs/model.npz", model)
