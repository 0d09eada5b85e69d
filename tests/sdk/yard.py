from pathlib import Path
from typing import Any

from azureml.core import Experiment, ScriptRunConfig

LOGGING_SCRIPT = """
import os, sys
from azureml.core import Run

run = Run.get_context(allow_offline=False)
print("arguments", *sys.argv[1:])
for step in range(3):
    run.log("loss", 1.0 / (step + 1), step=step)
run.log_row("row", x=1, y=2)
run.log_list("list", [1, 2, 3])
run.tag("colour", "blue")
run.add_properties({"author": "me"})
os.makedirs("outputs/model", exist_ok=True)
with open("outputs/model/weights.txt", "w") as sink:
    sink.write("weights")
run.upload_file("extra/notes.txt", "outputs/model/weights.txt")
with run.child_run("child") as child:
    child.log("depth", 1)
print("inside", run.get_metrics(name="loss"), run.experiment.name)
"""


def config(folder: Path, text: str, *arguments: Any) -> ScriptRunConfig:
    """A config that runs `text` on this interpreter."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(text)
    made = ScriptRunConfig(source_directory=str(folder), script="train.py", arguments=list(arguments))
    made.run_config.environment.python.user_managed_dependencies = True
    return made


def submit(experiment: Experiment, folder: Path, text: str, *arguments: Any) -> Any:
    return experiment.submit(config(folder, text, *arguments))
