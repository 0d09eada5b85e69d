"""What lies on disk for a web service: whole or not at all, the newest word, and nothing outside its folder."""

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.record_json import from_json, to_json
from runyard.core.records.files import FileEntry
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.web_services import (
    ObservedService,
    Scale,
    Scorer,
    ServedModel,
    ServiceAuth,
    ServiceFailure,
    ServiceSpec,
    ServiceState,
    ServiceType,
    ServingLimits,
)
from runyard.serving.service_folder import ServiceFolder, service_folders

FILE = FileEntry("model/é.pkl", "ab" * 32, 12, 0o755)
SPEC = ServiceSpec(
    id="abc",
    workspace="space",
    name="iris",
    type=ServiceType.AKS,
    revision=3,
    generation=7,
    scorer=Scorer.SCIKIT_LEARN,
    models=(ServedModel("iris", 2, (FILE,)),),
    environment=EnvironmentSpec(python="3.11", choices=(("a", "b"), ("c",)), library_links=(("x", "y"),)),
    code=(FILE,),
    entry_script="score.py",
    framework_version="1.9",
    variables={"OMP_NUM_THREADS": "1"},
    build_variables={"PATH": "/bin"},
    port=5001,
    host="::1",
    host_names=("*.example.org",),
    scoring_path="/api/v1/service/iris/score",
    admission=ServiceAuth(keys=("one", "two"), token_secret="three"),
    certificate="cert",
    private_key="key",
    limits=ServingLimits(scoring_seconds=2, memory_bytes=5),
    scale=Scale(least=2, most=4),
    schema={"input": {"type": "array"}},
)
SEEN = ObservedService(
    version=4,
    generation=7,
    revision=2,
    state=ServiceState.UNHEALTHY,
    step="init",
    trouble=ServiceFailure("problem", "hint", "init", "traceback", "logs"),
    failed_revision=3,
    port=5001,
    replicas=1,
    wanted_replicas=2,
    changed_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    notes=("note",),
    schema={"input": {}},
)


@pytest.fixture
def folder(tmp_path: Path) -> ServiceFolder:
    return ServiceFolder(tmp_path, SPEC.id)


def test_a_spec_and_a_state_come_back_as_they_were(folder: ServiceFolder) -> None:
    assert folder.write_spec(SPEC)
    folder.write_state(SEEN)
    assert (folder.spec(), folder.state()) == (SPEC, SEEN)


def test_secrets_are_the_owners_alone(folder: ServiceFolder) -> None:
    folder.write_spec(SPEC)
    assert ((folder.root / "spec.json").stat().st_mode & 0o777, folder.root.stat().st_mode & 0o777) == (0o600, 0o700)


def test_an_overtaken_writer_changes_nothing(folder: ServiceFolder) -> None:
    folder.write_spec(SPEC)
    assert not folder.write_spec(replace(SPEC, generation=6, name="older"))
    assert folder.spec() == SPEC


def test_of_many_writers_the_newest_wins(folder: ServiceFolder) -> None:
    specs = [replace(SPEC, generation=number) for number in range(1, 9)]
    writers = [threading.Thread(target=folder.write_spec, args=(spec,)) for spec in specs]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert folder.spec() == specs[-1]


@pytest.mark.parametrize("name", ["", "..", "../x", "/etc", "a/b", "a\0b", ".hidden", "x" * 200])
def test_an_id_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument):
        ServiceFolder(tmp_path, name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("revision", "3"),
        ("revision", True),
        ("models", {}),
        ("type", "Cloud"),
        ("variables", {"A": 1}),
        ("limits", {"scoring_seconds": "soon"}),
        ("models", [{"name": "iris", "files": []}]),
        ("admission", {"keys": [1]}),
    ],
)
def test_a_field_of_another_kind_is_named_and_its_value_is_not(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=rf"spec\.json\.{field}") as refused:
        from_json(ServiceSpec, {**to_json(SPEC), field: value}, "spec.json")
    assert "soon" not in str(refused.value)


def test_a_field_of_a_newer_version_is_ignored() -> None:
    assert from_json(ServiceSpec, {**to_json(SPEC), "colour": "blue"}, "spec.json") == SPEC


def test_a_missing_field_without_a_default_is_named() -> None:
    body = to_json(SPEC)
    del body["scorer"]
    with pytest.raises(InvalidArgument, match="lacks scorer"):
        from_json(ServiceSpec, body, "spec.json")


def test_a_folder_without_a_spec_or_with_a_torn_one_says_so(folder: ServiceFolder) -> None:
    with pytest.raises(NotFound):
        folder.spec()
    folder.write_spec(SPEC)
    (folder.root / "spec.json").write_text('{"id": "ab')
    with pytest.raises(InvalidArgument, match="is not JSON"):
        folder.spec()
    (folder.root / "state.json").write_text("nonsense")
    assert folder.state() is None


def test_only_folders_with_a_spec_are_listed_and_a_deleted_one_is_gone(folder: ServiceFolder, tmp_path: Path) -> None:
    folder.write_spec(SPEC)
    (tmp_path / "services" / "stray").mkdir()
    assert [found.id for found in service_folders(tmp_path)] == ["abc"]
    folder.delete()
    folder.delete()
    assert service_folders(tmp_path) == []


def test_old_revisions_and_torn_ones_go(folder: ServiceFolder) -> None:
    folder.write_spec(SPEC)
    for name in ("r1", "r2", ".r3.x1y2"):
        (folder.root / name / "azureml-app").mkdir(parents=True)
    (folder.root / "readme").touch()
    folder.delete_revisions_but({2})
    assert sorted(path.name for path in folder.root.iterdir()) == ["r2", "readme", "spec.json"]


def test_the_json_holds_no_python_of_ours(folder: ServiceFolder) -> None:
    folder.write_spec(SPEC)
    body = json.loads((folder.root / "spec.json").read_bytes())
    assert body["type"] == "AKS"
    assert body["models"][0]["files"][0]["path"] == FILE.path
