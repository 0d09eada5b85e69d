"""Weights & Biases offline: a folder of files as an artifact, until the run has finished."""

import sys

import wandb
from answering import answer, seconds


def store():
    run = wandb.init(project="bench", mode="offline", settings=wandb.Settings(x_disable_stats=True))

    def store_all():
        artifact = wandb.Artifact("outputs", type="outputs")
        artifact.add_dir(sys.argv[1])
        run.log_artifact(artifact)
        run.finish()

    return seconds(store_all)


answer(store)
