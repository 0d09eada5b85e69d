"""TensorBoard for runs, in environments without TensorFlow."""

from azureml.tensorboard.tensorboard import Tensorboard

__all__ = ["Tensorboard"]
