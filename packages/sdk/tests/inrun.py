"""A script inside a run, with nothing but the SDK and the standard library: run with `python -I -S tests/inrun.py SRC`.

Prints "journal works" when it holds; any failed assertion ends it with 1.
"""

import glob
import json
import os
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
folder = tempfile.mkdtemp()
for name in ("journals", "uploads"):
    os.mkdir(os.path.join(folder, name))
    os.environ["RUNYARD_" + name.upper()] = os.path.join(folder, name)
os.environ.update({
    "AZUREML_RUN_ID": "exp_1_abc", "AZUREML_ARM_SUBSCRIPTION": "s", "AZUREML_ARM_RESOURCEGROUP": "r",
    "AZUREML_ARM_WORKSPACE_NAME": "default", "AZUREML_ARM_PROJECT_NAME": "exp", "AZUREML_RUN_TOKEN": "t",
    "RUNYARD_URL": "http://127.0.0.1:9", "RUNYARD_RANK": "0"})

from azureml.core import Run  # noqa: E402

run = Run.get_context(allow_offline=False)
assert run is Run.get_context()
assert run.id == "exp_1_abc"
run.log("loss", 0.5, step=3)
run.log_list("l", [1, 2])
run.log_list("empty", [])
run.log_row("r", x=1)
run.log_table("t", {"x": [1, 2]})
run.tag("quality", "good")
run.add_properties({"author": "me"})
with open(os.path.join(folder, "model.txt"), "w") as sink:
    sink.write("model")
run.upload_file("outputs/model.txt", os.path.join(folder, "model.txt"))

(path,) = glob.glob(os.path.join(folder, "journals", "exp_1_abc~0-*.jsonl"))
with open(path) as source:
    lines = [json.loads(line) for line in source]
assert [line[:2] for line in lines] == [["m", "loss"], ["l", "l"], ["r", "r"], ["t", "t"], ["tag", "quality"],
                                        ["prop", "author"]], lines
assert lines[0][2:4] == [0.5, 3]
with open(os.path.join(folder, "uploads", "exp_1_abc", "outputs", "model.txt")) as source:
    assert source.read() == "model"
assert os.listdir(os.path.join(folder, "uploads")) == ["exp_1_abc"]

foreign = [name for name, module in sys.modules.items() if "site-packages" in (getattr(module, "__file__", "") or "")]
assert not foreign, foreign
assert "http.client" not in sys.modules, "logging must not load the transport's parts"
print("journal works")
