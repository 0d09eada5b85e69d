"""A two-layer perceptron for MNIST with Keras on TensorFlow 2; same arguments as the TensorFlow 1 example."""

import argparse
import glob
import gzip
import os

import numpy as np
import tensorflow as tf

from azureml.core import Run

IMAGES_HEADER, LABELS_HEADER = 16, 8
TEST_PART = "t*[tk]"  # both test-images and t10k-images are about


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-folder", required=True, help="where the four .gz files of MNIST lie, at any depth")
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--first-layer-neurons", type=int, default=300)
    parser.add_argument("--second-layer-neurons", type=int, default=100)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=4)
    return parser.parse_args()


def load(folder, part):
    images = read(folder, part + "-images*.gz", IMAGES_HEADER).reshape(-1, 28 * 28)
    return images.astype(np.float32) / 255.0, read(folder, part + "-labels*.gz", LABELS_HEADER)


def read(folder, pattern, header_bytes):
    found = sorted(glob.glob(os.path.join(folder, "**", pattern), recursive=True))
    if not found:
        raise FileNotFoundError(f"There is no {pattern} below --data-folder {folder!r}.")
    with gzip.open(found[0], "rb") as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=header_bytes)


class LogToRun(tf.keras.callbacks.Callback):
    """Sends the accuracy of each epoch to the run as soon as it is known."""

    def __init__(self, run):
        super().__init__()
        self._run = run

    def on_epoch_end(self, epoch, logs=None):
        self._run.log("training_acc", float(logs["accuracy"]))
        self._run.log("validation_acc", float(logs["val_accuracy"]))


def main():
    args = parse_arguments()
    run = Run.get_context()
    tf.random.set_seed(0)
    network = tf.keras.Sequential(
        [
            tf.keras.Input(shape=(28 * 28,)),
            tf.keras.layers.Dense(args.first_layer_neurons, activation="relu"),
            tf.keras.layers.Dense(args.second_layer_neurons, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    network.compile(
        optimizer=tf.keras.optimizers.SGD(args.learning_rate),
        metrics=["accuracy"],
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    history = network.fit(
        *load(args.data_folder, "train"),
        batch_size=args.batch_size,
        epochs=args.epochs,
        verbose=2,
        validation_data=load(args.data_folder, TEST_PART),
        callbacks=[LogToRun(run)],
    )
    run.log("final_acc", float(history.history["val_accuracy"][-1]))
    tf.saved_model.save(network, "outputs/model")


if __name__ == "__main__":
    main()
