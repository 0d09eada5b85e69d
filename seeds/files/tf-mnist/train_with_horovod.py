"""Training by all ranks of an MPI run. Every rank logs who it is and where, and what its weights are in the end."""

import os

import horovod.tensorflow as hvd
import tensorflow as tf
from perceptron import CONFIG, Perceptron, Share


def train(run, args, steps):
    hvd.init()
    print("Rank", hvd.rank(), "of", hvd.size(), flush=True)
    share = Share(args.data_folder, hvd.rank(), hvd.size())
    network = Perceptron(args, hvd.DistributedOptimizer)
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        session.run(hvd.broadcast_global_variables(0))
        for _ in range(steps):
            session.run(network.train_step, share.batch(network, args.batch_size))
        # Ranks saw other images: their weights are the same only because each step took the mean of all gradients.
        run.log("weights_sum", float(session.run(network.weights_sum)))
        accuracy = float(session.run(network.accuracy, share.test(network)))
    print(f"Rank {hvd.rank()} has made {steps} steps, accuracy {accuracy:.4f}")
    run.log("rank", hvd.rank())
    run.log("working_folder", os.getcwd())
    run.log("accuracy", accuracy)
