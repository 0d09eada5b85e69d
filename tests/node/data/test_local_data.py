"""Data of local folders in whole runs: what the script sees, and what it cannot do."""

import shutil
from datetime import timedelta

import pytest

from runyard.core.errors import SourceChanged, Unreachable
from runyard.core.records.data import DatasetFiles, SourceFile
from runyard.node.task_folder import TaskFolder
from tests.node.conftest import driver_log
from tests.node.data.conftest import dataset, node_log, on_folder, one_file, output, reference, run, whole_folder

pytestmark = pytest.mark.slow

LISTS = """
import os, sys
for folder, _, names in sorted(os.walk(sys.argv[1])):
    for name in sorted(names):
        path = os.path.join(folder, name)
        print(os.path.relpath(path, sys.argv[1]), open(path).read())
print("at", sys.argv[1], "and", os.environ.get("mnist"))
"""
WRITES = """
import sys
try:
    open(sys.argv[1], "w").write("mine")
except OSError as e:
    print("refused:", e.strerror)
"""


@pytest.mark.needs("mount namespace")
def test_a_whole_folder_is_mounted_where_it_lies(submit, service, datastore, home):
    service.data = on_folder(datastore, mnist=whole_folder(datastore, "mnist"))
    item = dataset()
    assert run(submit, service, LISTS, item)["outcome"] == "completed"
    at = home / "mounts/run1.1/mnist"
    assert driver_log(service).splitlines() == ["test/b.gz second", "train/a.gz first", f"at {at} and {at}"]
    assert not at.exists()
    assert (datastore / "mnist/test/b.gz").read_text() == "second"


@pytest.mark.needs("mount namespace")
def test_one_file_that_is_mounted_is_given_as_the_file(submit, service, datastore, home):
    service.data = on_folder(datastore, mnist=one_file(datastore, "mnist/train/a.gz"))
    item = dataset()
    run(submit, service, "import sys; print(sys.argv[1], open(sys.argv[1]).read())", item)
    assert driver_log(service) == f"{home}/mounts/run1.1/mnist/a.gz first\n"


def test_a_selection_of_files_is_laid_out_by_its_paths(submit, service, datastore):
    chosen = [SourceFile("x/a.gz", "blobs", "mnist/train/a.gz", 5), SourceFile("n", "blobs", "notes.txt", 5)]
    service.data = on_folder(datastore, mnist=DatasetFiles(chosen, is_one_file=False))
    item = dataset()
    run(submit, service, LISTS, item)
    assert driver_log(service).splitlines()[:2] == ["n notes", "x/a.gz first"]


@pytest.mark.needs("mount namespace")
@pytest.mark.parametrize("path", ["mnist", "mnist/train/a.gz"])
def test_a_mounted_dataset_cannot_be_written_even_by_root(submit, service, datastore, path):
    is_file = path.endswith(".gz")
    service.data = on_folder(datastore, mnist=(one_file if is_file else whole_folder)(datastore, path))
    item = dataset()
    inside = item.placeholder if is_file else f"{item.placeholder}/train/a.gz"
    assert run(submit, service, WRITES, item, argument=inside)["outcome"] == "completed"
    assert driver_log(service) == "refused: Read-only file system\n"
    assert (datastore / "mnist/train/a.gz").read_text() == "first"


@pytest.mark.needs("mount namespace")
def test_nothing_can_be_added_to_a_mounted_selection(submit, service, datastore):
    service.data = on_folder(datastore, mnist=one_file(datastore, "notes.txt"))
    item = dataset()
    run(submit, service, WRITES, item, argument=f"{item.placeholder}-mine")
    assert driver_log(service) == "refused: Read-only file system\n"


def test_a_downloaded_dataset_is_the_scripts_own(submit, service, datastore, home):
    service.data = on_folder(datastore, mnist=whole_folder(datastore, "mnist"))
    item = dataset(mode="download")
    script = "import os, sys; open(sys.argv[1] + '/train/a.gz', 'w').write('mine'); print(sys.argv[1])"
    assert run(submit, service, script, item)["outcome"] == "completed"
    assert driver_log(service) == f"{home}/scripts/run1.1/data/mnist\n"
    assert (datastore / "mnist/train/a.gz").read_text() == "first"


@pytest.mark.parametrize("mode", ["mount", "download"])
def test_path_on_compute_leads_to_the_data_from_the_working_folder(submit, service, datastore, mode):
    service.data = on_folder(datastore, mnist=whole_folder(datastore, "mnist"))
    item = dataset(mode=mode, path_on_compute="inputs/mnist")
    run(submit, service, "print(open('inputs/mnist/train/a.gz').read())", item)
    assert driver_log(service) == "first\n"


@pytest.mark.needs("mount namespace")
@pytest.mark.parametrize("mode", ["mount", "download"])
def test_an_absolute_path_on_compute_is_made_for_the_run_alone(submit, service, datastore, tmp_path, mode):
    wanted = tmp_path / "elsewhere" / "mnist"
    service.data = on_folder(datastore, mnist=whole_folder(datastore, "mnist"))
    item = dataset(mode=mode, path_on_compute=str(wanted))
    script = f"import sys; print(sys.argv[1], open('{wanted}/train/a.gz').read())"
    run(submit, service, script, item)
    assert driver_log(service) == f"{wanted} first\n"
    assert list(wanted.iterdir()) == []


@pytest.mark.needs("mount namespace")
def test_an_absolute_path_on_compute_hides_no_files(submit, service, datastore, tmp_path):
    wanted = tmp_path / "taken"
    wanted.mkdir()
    (wanted / "precious").write_text("x")
    service.data = on_folder(datastore, mnist=whole_folder(datastore, "mnist"))
    item = dataset(path_on_compute=str(wanted))
    run(submit, service, "import sys; print(sys.argv[1])", item)
    assert driver_log(service).startswith(str(tmp_path / "home/mounts"))
    assert f"path_on_compute '{wanted}' of mnist is not made (that folder is not empty)" in node_log(service)


@pytest.mark.needs("mount namespace")
def test_a_path_on_compute_in_the_home_never_leads_the_cleaning_to_the_data(submit, service, datastore, home):
    wanted = home / "scripts/run1.1/work/outputs"
    service.data = on_folder(datastore)
    item = reference("mount", "mnist", path_on_compute=str(wanted))
    assert run(submit, service, "pass", item)["outcome"] == "completed"
    assert "Runyard's own files lie there" in node_log(service)
    assert (datastore / "mnist/train/a.gz").read_text() == "first"


def test_a_mounted_reference_is_the_folder_itself(submit, service, datastore):
    service.data = on_folder(datastore)
    item = reference("mount", "mnist")
    run(submit, service, "import sys; open(sys.argv[1] + '/new', 'w').write('x')", item)
    assert (datastore / "mnist/new").read_text() == "x"


def test_a_mounted_reference_to_nothing_is_a_new_folder(submit, service, datastore):
    service.data = on_folder(datastore)
    item = reference("mount", "fresh/models", path_on_compute="models")
    run(submit, service, "open('models/m', 'w').write('x')", item)
    assert (datastore / "fresh/models/m").read_text() == "x"


def test_a_downloaded_reference_keeps_its_path_on_the_datastore(submit, service, datastore, home):
    service.data = on_folder(datastore)
    item = reference("download", "mnist/train", path_on_compute="in")
    run(submit, service, "import os, sys; print(sys.argv[1], os.listdir(sys.argv[1]))", item)
    assert driver_log(service) == f"{home}/scripts/run1.1/work/blobs/in/mnist/train ['a.gz']\n"


def test_a_download_of_nothing_is_a_failure_that_names_it(submit, service, datastore):
    service.data = on_folder(datastore)
    ended = run(submit, service, "pass", reference("download", "mnis"))
    assert (ended["outcome"], ended["phase"]) == ("failed", "Preparing")
    assert "Data reference 'ref': there is nothing at 'mnis' in datastore 'blobs'." in ended["error"]["message"]


def test_what_a_script_leaves_at_an_upload_reference_reaches_the_datastore(submit, service, datastore):
    service.data = on_folder(datastore)
    item = reference("upload", "results", path_on_compute="out")
    script = "import os; os.makedirs('out/deep', exist_ok=True); open('out/deep/m', 'w').write('trained')"
    assert run(submit, service, script, item)["outcome"] == "completed"
    assert (datastore / "results/deep/m").read_text() == "trained"


def test_one_uploaded_file_keeps_its_name(submit, service, datastore):
    service.data = on_folder(datastore)
    item = reference("upload", "results", path_on_compute="model.txt")
    run(submit, service, "open('model.txt', 'w').write('trained')", item)
    assert (datastore / "results/model.txt").read_text() == "trained"


def test_an_upload_without_overwrite_leaves_what_is_there_and_says_so(submit, service, datastore):
    service.data = on_folder(datastore)
    item = reference("upload", path_on_compute="out")
    script = "open('out/notes.txt', 'w').write('mine'); open('out/new', 'w').write('x')"
    ended = run(submit, service, script, item)
    assert (ended["outcome"], (datastore / "notes.txt").read_text()) == ("completed", "notes")
    assert (datastore / "new").read_text() == "x"
    assert [w for w in ended["warnings"] if "left as they were" in w and "notes.txt" in w]


def test_an_upload_with_overwrite_replaces_what_is_there(submit, service, datastore):
    service.data = on_folder(datastore)
    item = reference("upload", path_on_compute="out", overwrite=True)
    ended = run(submit, service, "open('out/notes.txt', 'w').write('mine')", item)
    assert (ended["warnings"], (datastore / "notes.txt").read_text()) == ([], "mine")


def test_a_file_whose_name_is_no_text_is_not_uploaded_and_named(submit, service, datastore):
    service.data = on_folder(datastore)
    script = "import os; open(b'out/\\xff', 'w').write('x'); open('out/new', 'w').write('x')"
    ended = run(submit, service, script, reference("upload", "x", path_on_compute="out"))
    assert (ended["outcome"], (datastore / "x/new").read_text()) == ("completed", "x")
    assert [w for w in ended["warnings"] if "not UTF-8: 'x/\\udcff'" in w]


def test_the_folder_of_a_datastore_that_is_not_there_is_never_made(submit, service, tmp_path):
    service.data = on_folder(tmp_path / "unplugged")
    message = run(submit, service, "pass", reference("mount", "x"))["error"]["message"]
    assert "the folder of datastore 'blobs', is not there" in message
    assert not (tmp_path / "unplugged").exists()


def test_a_cancel_ends_an_upload(submit, service, datastore, engine, home):
    service.data = on_folder(datastore)
    service.stores_are_away = True
    ticket = submit("open('out/m', 'w').write('x')", data=(reference("upload", "x", path_on_compute="out"),))
    service.wait_for(lambda: TaskFolder(home, "run1.1").read("script-end.json"))
    engine.cancel(ticket, grace=timedelta(seconds=0.2))
    ended = service.ended()
    assert ended["outcome"] == "canceled"
    assert ended["error"]["message"] == "The run was canceled while its data was uploaded."


def test_a_canceled_run_says_what_it_did_not_upload(submit, service, datastore, engine):
    service.data = on_folder(datastore)
    item = reference("upload", "x", path_on_compute="out")
    ticket = submit("import time; print('ready', flush=True); time.sleep(600)", data=(item,))
    service.wait_for(lambda: "ready" in driver_log(service))
    engine.cancel(ticket, grace=timedelta(seconds=0.2))
    assert service.ended()["warnings"] == ["The run was canceled, so this was not uploaded: ref."]


@pytest.mark.parametrize("mode", ["mount", "upload"])
def test_a_finished_output_is_told_to_the_service(submit, service, datastore, mode):
    service.data = on_folder(datastore)
    item = output(mode, "made/here")
    script = "import os, sys; open(os.path.join(sys.argv[1], 'a'), 'w').write('abc')"
    assert run(submit, service, script, item)["outcome"] == "completed"
    assert (datastore / "made/here/a").read_text() == "abc"
    assert service.outputs == [{"name": "result", "files": 1, "bytes": 3, "registers": True}]


def test_an_output_of_a_failed_script_is_not_to_be_registered(submit, service, datastore):
    service.data = on_folder(datastore)
    item = output("upload")
    script = "import sys; open(sys.argv[1] + '/a', 'w').write('abc'); sys.exit(3)"
    assert run(submit, service, script, item)["exit_code"] == 3
    assert service.outputs == [{"name": "result", "files": 1, "bytes": 3, "registers": False}]


def test_globs_choose_what_of_an_output_is_uploaded(submit, service, datastore):
    service.data = on_folder(datastore)
    item = output("upload", globs=("*.csv", "deep/**/*.txt"))
    script = (
        "import os, sys; os.chdir(sys.argv[1]); os.makedirs('deep/er')\n"
        "for name in ('a.csv', 'b.bin', 'deep/er/c.txt', 'deep/d.csv'): open(name, 'w').write('x')"
    )
    run(submit, service, script, item)
    assert sorted(str(p.relative_to(datastore / "out")) for p in (datastore / "out").rglob("*.*")) == [
        "a.csv",
        "deep/er/c.txt",
    ]


def test_a_changed_source_is_told_at_the_head_of_the_log(submit, service, datastore):
    found = whole_folder(datastore, "mnist")
    said = "Data input 'mnist': 1 file was changed since this version was made."
    changed = DatasetFiles(found.files, False, found.folder, [said])
    service.data = on_folder(datastore, mnist=changed)
    run(submit, service, "print('trains')", dataset())
    assert driver_log(service) == f"{said}\ntrains\n"


def test_a_service_that_refuses_the_data_fails_the_run_with_its_words(submit, service):
    service.data_refusal = SourceChanged("Dataset 'mnist' has changed.", hint="Register a new version.")
    ended = run(submit, service, "pass", dataset())
    assert ended["error"] == {"code": "UserError", "message": "Dataset 'mnist' has changed. Register a new version."}


def test_a_store_that_cannot_be_reached_is_no_reason_to_wait_for_ever(submit, service):
    service.data_refusal = Unreachable("Datastore 'far' did not answer for 60 s.")
    assert "did not answer" in run(submit, service, "pass", dataset())["error"]["message"]


def test_a_folder_that_is_gone_is_named(submit, service, datastore):
    found = whole_folder(datastore, "mnist")
    shutil.rmtree(datastore / "mnist")
    service.data = on_folder(datastore, mnist=found)
    message = run(submit, service, "pass", dataset())["error"]["message"]
    assert message.startswith("Data input 'mnist' could not be staged for the run: ")


def test_a_path_that_would_leave_the_dataset_is_refused(submit, service, datastore):
    found = DatasetFiles([SourceFile("../../evil", "blobs", "notes.txt", 5)], is_one_file=False)
    service.data = on_folder(datastore, mnist=found)
    assert "'../../evil', which does not lie inside" in run(submit, service, "pass", dataset())["error"]["message"]
