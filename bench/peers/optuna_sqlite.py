"""Optuna with its studies in SQLite, two trials at a time: milliseconds a trial.

`process` has every trial start the script, else it is run inside of the process that asks.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import optuna
from answering import answer, seconds

count, script, has_process = int(sys.argv[1]), sys.argv[2], sys.argv[3:] == ["process"]
code = compile(Path(script).read_text(), "script.py", "exec")
optuna.logging.set_verbosity(optuna.logging.WARNING)


def trial(asked):
    x = asked.suggest_float("x", 0, 1)
    if has_process:
        subprocess.run([sys.executable, script, "--x", repr(x)], check=True)
    else:
        exec(code, {"__name__": "__main__"})
    return x


def sweep():
    with tempfile.TemporaryDirectory() as folder:
        sampler = optuna.samplers.RandomSampler(seed=0)
        study = optuna.create_study(storage=f"sqlite:///{folder}/study.db", sampler=sampler)
        study.optimize(trial, n_trials=count, n_jobs=2)
        assert len(study.trials) == count


answer(lambda: seconds(sweep) * 1000 / count)
