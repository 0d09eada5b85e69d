"""A perceptron for MNIST with CNTK 2, whose workers exchange their gradients over MPI."""

import argparse
import os

import cntk as C
import numpy as np
from mnist import load_test, load_training, share

from azureml.core import Run

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data-folder", required=True)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--learning-rate", type=float, default=0.2)
args = parser.parse_args()

run = Run.get_context()
rank, size = C.Communicator.rank(), C.Communicator.num_workers()
images, labels = share(*load_training(args.data_folder), rank=rank, size=size)
print("Rank", rank, "of", size, "trains with", len(images), "images")

features, target = C.input_variable(784), C.input_variable(10)
network = C.layers.Sequential(
    [C.layers.Dense(300, C.relu), C.layers.Dense(100, C.relu), C.layers.Dense(10)])(features)
loss = C.cross_entropy_with_softmax(network, target)
error = C.classification_error(network, target)
rate = C.learning_parameter_schedule(args.learning_rate, minibatch_size=args.batch_size)
learner = C.distributed.data_parallel_distributed_learner(C.sgd(network.parameters, rate), num_quantization_bits=32)
trainer = C.Trainer(network, (loss, error), [learner])
one_hot = np.eye(10, dtype=np.float32)
batches = len(images) // args.batch_size
for epoch in range(args.epochs):
    for batch in np.random.permutation(batches * args.batch_size).reshape(batches, args.batch_size):
        trainer.train_minibatch({features: images[batch], target: one_hot[labels[batch]]})
    if rank == 0:
        test_x, test_y = load_test(args.data_folder)
        accuracy = float(np.mean(np.argmax(network.eval({features: test_x}), axis=1) == test_y))
        run.log("accuracy", accuracy)
        print("Epoch {}: accuracy {:.4f}".format(epoch + 1, accuracy))
if rank == 0:
    os.makedirs("outputs", exist_ok=True)
    network.save("outputs/model.dnn")
C.Communicator.finalize()
