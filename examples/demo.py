"""The first whole story: submit a script, follow its log, read its metrics, register its model.

`make demo` runs this. It uses nothing but the SDK, as any script of a user would.
"""

import time
from pathlib import Path

from azureml.core import Experiment, Model, Workspace
from azureml.train.estimator import Estimator

SCRIPT_FOLDER = Path(__file__).resolve().parent / "sklearn_digits"


def main():
    started = time.monotonic()
    step("1. Open the workspace")
    workspace = Workspace.from_config()
    print(f"Workspace '{workspace.name}' on this machine.")

    step("2. Submit train.py and follow it")
    print("The first run builds the script's environment; later ones find it in the cache.\n")
    run = Experiment(workspace, "demo").submit(
        Estimator(
            source_directory=str(SCRIPT_FOLDER),
            entry_script="train.py",
            script_params={"--regularization": 0.01},
            compute_target="local",
            pip_packages=["scikit-learn", "joblib"],
        )
    )
    run.wait_for_completion(show_output=True)

    step("3. Its metrics")
    show_metrics(run.get_metrics())

    step("4. Register its model")
    registered = run.register_model(model_name="digits", model_path="outputs/model.pkl", tags={"from": "demo"})
    print(f"Registered '{registered.name}' version {registered.version}, trained by run {run.id}.\n")
    print(f"{'model':<12} {'version':>7}  run")
    for model in Model.list(workspace, name="digits"):
        print(f"{model.name:<12} {model.version:>7}  {model.run_id}")

    print(f"\nDone in {time.monotonic() - started:.0f} s. The run's page: {run.get_portal_url()}")


def step(title):
    print(f"\n{title}\n{'-' * len(title)}", flush=True)


def show_metrics(metrics):
    """Print the scalars as one table, then each metric of rows as a table of its own."""
    for name, value in sorted(metrics.items()):
        if not isinstance(value, dict):
            print(f"{name:<24} {value:>10.4f}")
    for name, columns in sorted(metrics.items()):
        if isinstance(columns, dict):
            print(f"\n{name}\n" + "".join(f"{column:<12}" for column in columns))
            for row in zip(*columns.values(), strict=True):
                print("".join(f"{value:<12.4g}" for value in row))


if __name__ == "__main__":
    main()
