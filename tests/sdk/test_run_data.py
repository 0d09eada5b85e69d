"""Data of runs as a user's script meets it, and what their details tell of it."""

import sys
from pathlib import Path

import pytest

from azureml.core import Dataset, Datastore, ScriptRunConfig
from azureml.data import LinkFileOutputDatasetConfig, OutputFileDatasetConfig
from azureml.exceptions import UserErrorException
from tests.needs import interpreter
from tests.sdk.yard import config, submit


@pytest.fixture
def store(workspace, tmp_path):
    folder = tmp_path / "store"
    (folder / "in").mkdir(parents=True)
    (folder / "in/a.txt").write_text("a")
    (folder / "in/b.txt").write_text("b")
    return Datastore.register_folder(workspace, "files", folder)


@pytest.fixture
def dataset(workspace, store):
    return Dataset.File.from_files((store, "in")).register(workspace, "letters")


def finished(run):
    return run.wait_for_completion()


INPUTS = """
import os, sys
from azureml.core import Run

run = Run.get_context()
mounted, brought = run.input_datasets["mounted"], run.input_datasets["brought"]
assert sys.argv[1:4] == [mounted, brought, run.input_datasets["directly"].id], sys.argv
assert os.environ["mounted"] == os.environ["MOUNTED"] == os.environ["AZUREML_DATAREFERENCE_mounted"] == mounted
for folder in (mounted, brought):
    assert sorted(os.listdir(folder)) == ["a.txt", "b.txt"], os.listdir(folder)
assert run.input_datasets["directly"].to_path() == ["/a.txt", "/b.txt"]
try:
    run.input_datasets["absent"]
except Exception as error:
    assert "'absent'" in str(error) and "brought, directly, mounted" in str(error)
else:
    raise SystemExit("an input that is not there was found")
"""


def test_a_script_finds_its_inputs_and_the_details_tell_of_them(experiment, dataset, tmp_path):
    uses = [
        dataset.as_named_input("mounted").as_mount(),
        dataset.as_named_input("brought").as_download(),
        dataset.as_named_input("directly"),
    ]
    details = finished(submit(experiment, tmp_path / "source", INPUTS, *uses))
    assert {
        read["consumptionDetails"]["inputName"]: read["consumptionDetails"] for read in details["inputDatasets"]
    } == {
        "mounted": {"type": "RunInput", "inputName": "mounted", "mechanism": "Mount"},
        "brought": {"type": "RunInput", "inputName": "brought", "mechanism": "Download"},
        "directly": {"type": "RunInput", "inputName": "directly", "mechanism": "Direct"},
    }
    (first, *_) = details["inputDatasets"]
    assert first["dataset"] == {"id": dataset.id}
    assert (first["dataset"].name, first["dataset"].to_path()) == ("letters", ["/a.txt", "/b.txt"])


LOOKUP = """
from azureml.core import Dataset, Run, Workspace

run = Run.get_context()
found = Dataset.get_by_name(run.experiment.workspace, "letters")
assert [open(path).read() for path in found.download('found')] == ["a", "b"]
assert Dataset.get_by_name(Workspace.from_config(), "letters").id == found.id
"""


@pytest.mark.parametrize("version", ["", "3.6"], ids=["this Python", "the oldest"])
def test_a_dataset_that_a_script_looks_up_is_told_as_a_reference(experiment, dataset, tmp_path, version):
    python = interpreter(version) if version else sys.executable
    is_asked = f"import sys\nassert '%d.%d' % sys.version_info[:2] == {version!r}\n" if version else ""
    made = config(tmp_path / "source", is_asked + LOOKUP)
    made.run_config.environment.python.interpreter_path = str(python)
    details = finished(experiment.submit(made))
    assert [(read["dataset"]["id"], read["consumptionDetails"]) for read in details["inputDatasets"]] == [
        (dataset.id, {"type": "Reference"})
    ]


OUTPUTS = """
import os, sys
from azureml.core import Run

run = Run.get_context()
assert sys.argv[1:] == [run.output_datasets["mounted"], run.output_datasets["sent"]], (sys.argv, run.output_datasets)
for place in sys.argv[1:]:
    os.makedirs(os.path.join(place, "deep"), exist_ok=True)
    for name in ("deep/x.csv", "y.txt"):
        with open(os.path.join(place, name), "w") as sink:
            sink.write("a,b\\n1,2\\n")
"""


def test_outputs_are_stored_registered_and_told(workspace, experiment, store, tmp_path):
    mounted = OutputFileDatasetConfig("mounted", (store, "out/{run-id}/{output-name}")).register_on_complete("made")
    sent = OutputFileDatasetConfig("sent", (store, "sent")).as_upload(overwrite=True, source_globs=["**/*.csv"])
    run = submit(experiment, tmp_path / "source", OUTPUTS, mounted, sent)
    details = finished(run)
    root = Path(store.folder)
    assert (root / f"out/{run.id}/mounted/deep/x.csv").read_text() == "a,b\n1,2\n"
    assert [path.relative_to(root).as_posix() for path in root.glob("sent/**/*.*")] == ["sent/deep/x.csv"]
    made = Dataset.get_by_name(workspace, "made")
    assert made.to_path() == ["/deep/x.csv", "/y.txt"]
    told = {written["outputDetails"]["outputName"]: written for written in details["outputDatasets"]}
    assert sorted(told) == ["mounted", "sent"]
    assert told["mounted"]["identifier"] == {"savedId": made.id}
    assert told["sent"]["dataset"].to_path() == ["/deep/x.csv"]


def test_by_default_an_output_lies_on_the_default_datastore(workspace, experiment, tmp_path):
    run = submit(
        experiment, tmp_path / "source", OUTPUTS, OutputFileDatasetConfig("mounted"), OutputFileDatasetConfig("sent")
    )
    finished(run)
    paths = [file["path"] for file in workspace.get_default_datastore()._files(f"dataset/{run.id}")]
    assert f"dataset/{run.id}/mounted/deep/x.csv" in paths


def test_an_output_is_the_input_of_the_next_run(experiment, store, tmp_path):
    output = OutputFileDatasetConfig("mounted", (store, "between"))
    finished(submit(experiment, tmp_path / "one", OUTPUTS, output, OutputFileDatasetConfig("sent")))
    script = "import os, sys\nassert sorted(os.listdir(sys.argv[1])) == ['deep', 'y.txt']"
    finished(submit(experiment, tmp_path / "two", script, output.as_input("again")))


LINKS = """
from azureml.core import Dataset, Run

run = Run.get_context()
run.output_datasets["linked"].link(Dataset.get_by_name(run.experiment.workspace, "letters").take(1))
"""


def test_a_script_names_a_dataset_as_its_output(workspace, experiment, dataset, tmp_path):
    output = LinkFileOutputDatasetConfig("linked").register_on_complete("first letter")
    details = finished(submit(experiment, tmp_path / "source", LINKS, output))
    assert [written["outputDetails"] for written in details["outputDatasets"]] == [{"outputName": "linked"}]
    assert Dataset.get_by_name(workspace, "first letter").to_path() == ["/a.txt"]


REFERENCES = """
import os, sys
mounted, brought, sent = sys.argv[1:]
assert os.environ["AZUREML_DATAREFERENCE_mounted"] == mounted
assert sorted(os.listdir(mounted)) == ["a.txt", "b.txt"]
assert brought.endswith("files/here/in") and open(os.path.join(brought, "a.txt")).read() == "a", brought
with open(os.path.join(mounted, "written.txt"), "w") as sink:
    sink.write("w")
os.makedirs(sent, exist_ok=True)
with open(os.path.join(sent, "late.txt"), "w") as sink:
    sink.write("l")
"""


def test_references_are_mounted_read_and_written_brought_and_sent(experiment, store, tmp_path):
    given = [
        store.path("in", "mounted").as_mount(),
        store.path("in", "brought").as_download("here"),
        store.path("up", "sent").as_upload(),
    ]
    finished(submit(experiment, tmp_path / "source", REFERENCES, *given))
    assert (Path(store.folder) / "in/written.txt").read_text() == "w"
    assert (Path(store.folder) / "up/late.txt").read_text() == "l"


def test_a_model_remembers_its_datasets(experiment, dataset, tmp_path):
    script = "import os\nos.makedirs('outputs', exist_ok=True)\nopen('outputs/m.bin', 'w').close()"
    run = submit(experiment, tmp_path / "source", script)
    finished(run)
    model = run.register_model("net", "outputs/m.bin", datasets=[(Dataset.Scenario.TRAINING, dataset)])
    assert [one.id for one in model.datasets["training"]] == [dataset.id]


def test_data_changed_since_it_was_registered_is_told_with_the_run(experiment, dataset, store, tmp_path):
    (Path(store.folder) / "in/a.txt").write_text("another text")
    run = submit(experiment, tmp_path / "source", "print('hello')", dataset.as_named_input("letters").as_mount())
    warnings = " ".join(one["message"] for one in finished(run)["warnings"])
    assert "a.txt" in warnings


def test_a_dataset_that_went_is_named_at_submit(experiment, dataset, tmp_path):
    use = dataset.as_named_input("letters").as_mount()
    use.dataset._asset["id"] = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(UserErrorException, match="letters"):
        submit(experiment, tmp_path / "source", "pass", use)


def test_the_oldest_python_finds_its_inputs_too(experiment, dataset, tmp_path):
    made = config(
        tmp_path / "source",
        "import sys\nassert sys.version_info[:2] == (3, 6)\n" + INPUTS,
        dataset.as_named_input("mounted").as_mount(),
        dataset.as_named_input("brought").as_download(),
        dataset.as_named_input("directly"),
    )
    made.run_config.environment.python.interpreter_path = str(interpreter("3.6"))
    assert finished(experiment.submit(made))["status"] == "Completed"


RESUMED = """
import sys
assert sys.argv[1] == "--resume-from", sys.argv
assert open(sys.argv[2] + "/model/checkpoint").read() == "epoch 3"
"""


def test_a_run_goes_on_from_the_outputs_of_another(experiment, tmp_path):
    (tmp_path / "checkpoint").write_text("epoch 3")
    with experiment.start_logging(snapshot_directory=None) as first:
        with pytest.raises(UserErrorException, match="no files in outputs/"):
            first._get_outputs_datapath()
        first.upload_file("outputs/model/checkpoint", str(tmp_path / "checkpoint"))
    fresh = config(tmp_path / "source", RESUMED)
    resumed = ScriptRunConfig(
        fresh.source_directory, "train.py", run_config=fresh.run_config, resume_from=first._get_outputs_datapath()
    )
    assert finished(experiment.submit(resumed))["status"] == "Completed"
