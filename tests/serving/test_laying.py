"""Files of a revision: its own where a worker may have written to them, else those that are there already."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.records.web_services import ServedModel, ServiceSpec
from runyard.serving.revision import StagingCancelled, stage_files
from runyard.serving.service_folder import ServiceFolder
from tests.serving.hosting import Hosting, ask


@pytest.fixture
def spec(hosting: Hosting) -> ServiceSpec:
    files = (hosting.file("weights.bin", "large"), hosting.file("sub/labels.txt", "small"))
    return hosting.spec(models=(ServedModel("net", 3, files),))


def laid(hosting: Hosting, spec: ServiceSpec) -> Path:
    """The folder of its model."""
    folder = ServiceFolder(hosting.home, spec.id)
    folder.root.mkdir(parents=True, exist_ok=True)
    stage_files(folder, spec, threading.Event())
    return folder.revision(spec.revision) / "azureml-models" / "net" / "3"


def test_a_model_that_stays_is_not_copied_again(hosting: Hosting, spec: ServiceSpec) -> None:
    old = laid(hosting, spec)
    new = laid(hosting, replace(spec, revision=2))
    for name, text in (("weights.bin", "large"), ("sub/labels.txt", "small")):
        assert (new / name).samefile(old / name)
        assert (new / name).read_text() == text


def test_code_is_always_a_copy(hosting: Hosting, spec: ServiceSpec) -> None:
    codes = [laid(hosting, replace(spec, revision=number)) / "../../../azureml-app/score.py" for number in (1, 2)]
    assert not codes[0].samefile(codes[1])


def test_a_file_that_a_worker_has_written_to_comes_anew(hosting: Hosting, spec: ServiceSpec) -> None:
    old = laid(hosting, spec)
    (old / "weights.bin").write_text("LARGE")
    (old / "sub" / "labels.txt").unlink()
    new = laid(hosting, replace(spec, revision=2))
    assert ((new / "weights.bin").read_text(), (new / "sub" / "labels.txt").read_text()) == ("large", "small")
    assert (old / "weights.bin").read_text() == "LARGE"


def test_another_model_under_the_same_name_is_copied(hosting: Hosting, spec: ServiceSpec) -> None:
    laid(hosting, spec)
    other = ServedModel("net", 3, (hosting.file("weights.bin", "other"),))
    new = laid(hosting, replace(spec, revision=2, models=(other,)))
    assert (new / "weights.bin").read_text() == "other"
    assert not (new / "sub").exists()


def test_laying_that_is_given_up_ends_and_leaves_nothing(hosting: Hosting, spec: ServiceSpec) -> None:
    folder, given_up = ServiceFolder(hosting.home, spec.id), threading.Event()
    folder.root.mkdir(parents=True)
    given_up.set()
    with pytest.raises(StagingCancelled):
        stage_files(folder, spec, given_up)
    assert list(folder.root.iterdir()) == []


def test_files_stay_in_the_folder_of_their_model(hosting: Hosting, spec: ServiceSpec) -> None:
    hostile = ServedModel("net", 3, (replace(spec.models[0].files[0], path="../../../escaped"),))
    with pytest.raises(InvalidArgument, match="escaped"):
        laid(hosting, replace(spec, models=(hostile,)))


def test_the_old_revisions_files_may_go(hosting: Hosting, spec: ServiceSpec) -> None:
    read = "open(os.environ['AZUREML_MODEL_DIR'] + '/weights.bin').read()"
    script = f"import os\ndef init(): pass\ndef run(body): return {read}\n"
    first = replace(spec, code=(hosting.file("score.py", script),))
    hosting.deploy(first)
    seen = hosting.deploy(replace(first, revision=2, generation=2))
    assert ask(seen.port) == (200, "large")
