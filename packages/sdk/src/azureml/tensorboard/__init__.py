"""TensorBoard on runs, from an environment that has no TensorFlow."""

from azureml.tensorboard.tensorboard import Tensorboard

__all__ = ["Tensorboard"]
