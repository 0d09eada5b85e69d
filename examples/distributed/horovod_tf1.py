"""A perceptron for MNIST, trained by several ranks with Horovod on TensorFlow 1: each has its part of the images."""

import argparse
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from mnist import load_test, load_training, share

from azureml.core import Run

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data-folder", required=True)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--learning-rate", type=float, default=0.02)
args = parser.parse_args()

hvd.init()
run = Run.get_context()
train_x, train_y = share(*load_training(args.data_folder), rank=hvd.rank(), size=hvd.size())
print("Rank", hvd.rank(), "of", hvd.size(), "trains with", len(train_x), "images")

images = tf.placeholder(tf.float32, (None, 784))
labels = tf.placeholder(tf.int64, (None,))
hidden = tf.layers.dense(tf.layers.dense(images, 300, tf.nn.relu), 100, tf.nn.relu)
logits = tf.layers.dense(hidden, 10)
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
# Each step sees the images of all ranks, so that it may be larger by as much.
optimizer = hvd.DistributedOptimizer(tf.train.MomentumOptimizer(args.learning_rate * hvd.size(), 0.9))
step = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())

# All ranks begin with the weights of rank 0. One thread each: ranks of one machine share its cores.
hooks = [hvd.BroadcastGlobalVariablesHook(0)]
config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
batches = len(train_x) // args.batch_size
checkpoints = "outputs/model" if hvd.rank() == 0 else None
with tf.train.MonitoredTrainingSession(checkpoint_dir=checkpoints, hooks=hooks, config=config) as session:
    for epoch in range(args.epochs):
        begun = time.time()
        for batch in np.random.permutation(batches * args.batch_size).reshape(batches, args.batch_size):
            session.run(step, {images: train_x[batch], labels: train_y[batch]})
        print("Rank {} epoch {}: {:.2f} s".format(hvd.rank(), epoch + 1, time.time() - begun))
        if hvd.rank() == 0:
            test_x, test_y = load_test(args.data_folder)
            reached = float(session.run(accuracy, {images: test_x, labels: test_y}))
            run.log("accuracy", reached)
            print("Accuracy after epoch {}: {:.4f}".format(epoch + 1, reached))
