"""MLflow projects: `api` calls mlflow.projects.run, `command` starts `mlflow run`; a count asks for runs a second."""

import os
import subprocess
import sys

from answering import answer, rate, seconds

how, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
os.makedirs("project")
with open("project/MLproject", "w") as sink:
    sink.write(f'name: bench\nentry_points:\n  main:\n    command: "{sys.executable} script.py"\n')
with open("project/script.py", "w") as sink:
    sink.write("print('first line', flush=True)\n")
os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{os.getcwd()}/mlflow.db"


def by_command():
    program = os.path.join(os.path.dirname(sys.executable), "mlflow")
    subprocess.run([program, "run", "--env-manager", "local", "project"], check=True)


def by_api():
    import mlflow

    mlflow.projects.run("project", env_manager="local", synchronous=True)


run_one = by_command if how == "command" else by_api
answer((lambda: rate(run_one, count)) if count else (lambda: seconds(run_one)))
