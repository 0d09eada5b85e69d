"""The entry script of the pages' distributed estimators: trains as the run's launcher asks, and says who took part."""

import os

from train_mnist import parse_arguments

from azureml.core import Run

STEPS_OF_EACH = 400

if __name__ == "__main__":
    run, args = Run.get_context(), parse_arguments()
    if "TF_CONFIG" in os.environ:
        from train_with_servers import train
    else:
        from train_with_horovod import train
    train(run, args, STEPS_OF_EACH)
