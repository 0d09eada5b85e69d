"""Programs of a user: one that fills a home with a bit of everything, one that reads all of it back."""

TRAIN = """
import os
from azureml.core import Run
run = Run.get_context()
for step in range(2000):
    run.log("loss", 1.0 / (step + 1), step=step)
run.log_row("row", x=1, y=2)
run.log_list("list", [0.1, float("nan"), 3])
run.tag("colour", "blue")
run.add_properties({"author": "me"})
print("a line of the log")
os.makedirs("outputs", exist_ok=True)
for number in range(14):
    with open("outputs/%02d.txt" % number, "w") as file:
        file.write("weights %d" % number)
with run.child_run("child") as child:
    child.log("depth", 1)
"""
SCORE = """
import json

def init():
    pass

def run(data):
    return {"got": json.loads(data)}
"""
FILL = """
import os
from azureml.core import Dataset, Environment, Experiment, Model, ScriptRunConfig, Workspace
from azureml.core.model import InferenceConfig
workspace = Workspace.from_config()
here = Environment("here")
here.python.user_managed_dependencies = True
here.register(workspace)
run = Experiment(workspace, "story").submit(ScriptRunConfig("source", "train.py", environment=here))
run.wait_for_completion()
model = run.register_model("net", model_path="outputs", tags={"stage": "test"})
store = workspace.get_default_datastore()
store.upload("source", target_path="data", show_progress=False)
Dataset.File.from_files((store, "data/**")).register(workspace, "files")
workspace.get_default_keyvault().set_secret("password", "a secret value")
config = InferenceConfig("score.py", source_directory="source", environment=here)
service = Model.deploy(workspace, "echo", [model], config)
service.wait_for_deployment()
"""
DESCRIBE = """
import hashlib, json, os, sys, tempfile
from azureml.core import Dataset, Environment, Experiment, Model, Webservice, Workspace
workspace = Workspace.from_config()

def content(folder):
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            found[os.path.relpath(path, folder)] = hashlib.sha256(open(path, "rb").read()).hexdigest()
    return found

def run_of(run):
    with tempfile.TemporaryDirectory() as folder:
        run.download_files(output_directory=folder)
        details = run.get_details()
        return {
            "id": run.id, "number": run.number, "status": run.get_status(), "tags": run.get_tags(),
            "properties": run.get_properties(), "metrics": repr(run.get_metrics()), "files": content(folder),
            "started": details["startTimeUtc"], "definition": details.get("runDefinition"),
            "children": [run_of(child) for child in run.get_children()],
        }

with tempfile.TemporaryDirectory() as folder:
    Dataset.get_by_name(workspace, "files").download(folder)
    data = content(folder)
with tempfile.TemporaryDirectory() as folder:
    Model(workspace, "net").download(folder)
    model = content(folder)
service = Webservice(workspace, "echo")
service.wait_for_deployment()
print(json.dumps({
    "runs": [run_of(run) for run in Experiment(workspace, "story").get_runs()],
    "model": [Model(workspace, "net").id, Model(workspace, "net").tags, model],
    "data": data,
    "environment": Environment.get(workspace, "here").python.user_managed_dependencies,
    "secret": workspace.get_default_keyvault().get_secret("password"),
    "answer": service.run(json.dumps({"a": 1})),
}, sort_keys=True))
"""
