"""The network that all ranks train together, and the part of MNIST that is a rank's own."""

import numpy as np
import tensorflow as tf
from train_mnist import CLASSES, PIXELS, dense
from utils import load_mnist

MOMENTUM = 0.9
# Ranks of one machine share its cores.
CONFIG = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)


class Perceptron:
    """The graph; `distribute` may wrap its optimizer."""

    def __init__(self, args, distribute=lambda optimizer: optimizer):
        self.images = tf.placeholder(tf.float32, shape=(None, PIXELS))
        self.labels = tf.placeholder(tf.int64, shape=(None,))
        hidden = dense(self.images, PIXELS, args.first_layer_neurons, "first", tf.nn.relu)
        hidden = dense(hidden, args.first_layer_neurons, args.second_layer_neurons, "second", tf.nn.relu)
        logits = dense(hidden, args.second_layer_neurons, CLASSES, "output", tf.identity)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.labels, logits=logits))
        optimizer = distribute(tf.train.MomentumOptimizer(args.learning_rate, MOMENTUM))
        self.global_step = tf.train.get_or_create_global_step()
        with tf.control_dependencies([optimizer.minimize(loss)]):
            # `minimize` counts without a lock, and loses a step now and then when workers share the count.
            self.train_step = tf.assign_add(self.global_step, 1, use_locking=True).op
        self.accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, axis=1), self.labels), tf.float32))
        self.weights_sum = tf.add_n([tf.reduce_sum(tf.abs(weights)) for weights in tf.trainable_variables()])


class Share:
    """Every `size`-th training image from `rank` on, and all test images."""

    def __init__(self, folder, rank, size):
        (images, labels), self._test = load_mnist(folder)
        self._images, self._labels = images[rank::size], labels[rank::size]

    def batch(self, network, size):
        chosen = np.random.randint(len(self._images), size=size)
        return {network.images: self._images[chosen], network.labels: self._labels[chosen]}

    def test(self, network):
        return {network.images: self._test[0], network.labels: self._test[1]}
