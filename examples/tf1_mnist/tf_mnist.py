"""A two-layer perceptron for MNIST in the manner of TensorFlow 1: placeholders, a session and a Saver."""

import argparse
import os

import numpy as np
import tensorflow as tf
from utils import load_mnist

from azureml.core import Run

PIXELS, CLASSES = 28 * 28, 10


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-folder", required=True, help="where the four .gz files of MNIST lie, at any depth")
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--first-layer-neurons", type=int, default=300)
    parser.add_argument("--second-layer-neurons", type=int, default=100)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=4)
    return parser.parse_args()


class Network:
    """The graph: 784 pixels, two hidden layers, ten classes."""

    def __init__(self, first, second, learning_rate):
        self.images = tf.placeholder(tf.float32, shape=(None, PIXELS), name="images")
        self.labels = tf.placeholder(tf.int64, shape=(None,), name="labels")
        hidden = dense(self.images, PIXELS, first, "first", tf.nn.relu)
        hidden = dense(hidden, first, second, "second", tf.nn.relu)
        logits = dense(hidden, second, CLASSES, "output", tf.identity)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.labels, logits=logits))
        self.train_step = tf.train.GradientDescentOptimizer(learning_rate).minimize(loss)
        self.accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, axis=1), self.labels), tf.float32))


def dense(inputs, width_in, width_out, name, activation):
    with tf.variable_scope(name):
        weights = tf.get_variable("weights", (width_in, width_out), initializer=tf.glorot_uniform_initializer())
        bias = tf.get_variable("bias", (width_out,), initializer=tf.zeros_initializer())
        return activation(tf.matmul(inputs, weights) + bias)


def train_epoch(session, network, images, labels, batch_size):
    order = np.random.permutation(len(images))
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        session.run(network.train_step, {network.images: images[batch], network.labels: labels[batch]})


def accuracy_on(session, network, images, labels):
    return float(session.run(network.accuracy, {network.images: images, network.labels: labels}))


def main():
    args = parse_arguments()
    run = Run.get_context()
    (train_x, train_y), (test_x, test_y) = load_mnist(args.data_folder)
    print("Training images:", train_x.shape, "test images:", test_x.shape)
    np.random.seed(0)
    tf.set_random_seed(0)
    network = Network(args.first_layer_neurons, args.second_layer_neurons, args.learning_rate)

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for epoch in range(args.epochs):
            train_epoch(session, network, train_x, train_y, args.batch_size)
            training_acc = accuracy_on(session, network, train_x[:10000], train_y[:10000])
            validation_acc = accuracy_on(session, network, test_x, test_y)
            run.log("training_acc", training_acc)
            run.log("validation_acc", validation_acc)
            print(f"Epoch {epoch + 1}: training accuracy {training_acc:.4f}, validation accuracy {validation_acc:.4f}")
        os.makedirs("outputs/model", exist_ok=True)
        tf.train.Saver().save(session, "outputs/model/mnist-tf.model")
    run.log("final_acc", validation_acc)


if __name__ == "__main__":
    main()
