"""Horovod built for real in an environment of the platform, and used under mpirun by hand."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from runyard.core.definitions.run import RunDefinition
from runyard.environments.planning.environment_spec import plan_environment
from runyard.environments.uv_environments import UvEnvironments

SECOND_ENVIRONMENT_SECONDS = 60
TRAIN = """
import numpy as np, tensorflow as tf, horovod.tensorflow as hvd
hvd.init()
tf.set_random_seed(hvd.rank())
x = tf.placeholder(tf.float32, [None, 4])
w = tf.Variable(tf.random_normal([4, 1]))
loss = tf.reduce_mean((tf.matmul(x, w) - 1.0) ** 2)
step = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1)).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(hvd.broadcast_global_variables(0))
    data = np.random.RandomState(hvd.rank())
    for _ in range(20):
        session.run(step, {x: data.rand(16, 4)})
    print("size %d weights %.6f" % (hvd.size(), session.run(tf.reduce_sum(w))))
"""


def _spec(*pip_packages: str):
    definition = {
        "communicator": "OpenMpi",
        "environment": {"python": {"condaDependencies": {"dependencies": [{"pip": list(pip_packages)}]}}},
        "runyard": {"estimator": {"framework": "TensorFlow", "version": "1.13", "use_gpu": False}},
    }
    return plan_environment(RunDefinition.parse(definition), gpu_present=False)


@pytest.mark.frameworks
def test_two_ranks_train_with_horovod_and_a_second_environment_takes_seconds(tmp_path: Path):
    environments = UvEnvironments(tmp_path / "environments", os.environ)
    said: list[str] = []
    first = environments.ensure(_spec(), said.append)
    assert any(line.startswith("Built horovod==0.16.1 against tensorflow==1.13.2") for line in said)
    (tmp_path / "train.py").write_text(TRAIN)
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", str(first.python), "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("size 2 weights ")]
    assert len(lines) == 2
    assert len(set(lines)) == 1
    said.clear()
    began = time.monotonic()
    second = environments.ensure(_spec("termcolor"), said.append)
    assert time.monotonic() - began < SECOND_ENVIRONMENT_SECONDS
    assert any("its wheel is taken" in line for line in said)
    assert second.key != first.key
    shutil.rmtree(tmp_path / "environments")
