"""A revision of a web service on disk: its staged files and the facts that its workers are started with."""

import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from runyard.core.durable_files import replace_file
from runyard.core.errors import InvalidArgument, Json, NotFound
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.record_json import from_json, to_json
from runyard.core.records.files import FileEntry
from runyard.core.records.web_services import Scorer, ServedModel, ServiceSpec
from runyard.node.snapshot import place_files
from runyard.serving.service_folder import ServiceFolder
from runyard.storage.blobs.file_copy import copy_file
from runyard.storage.blobs.store import FileBlobStore

_FACTS = "revision.json"
_APP, _MODELS = "azureml-app", "azureml-models"


@dataclass(frozen=True)
class ModelName:
    name: str
    version: int


@dataclass(frozen=True)
class Revision:
    """All that its workers are started with, so that it can be restarted after the spec has changed."""

    number: int
    service: str
    scorer: Scorer
    models: tuple[ModelName, ...]
    python: str
    environment_key: str = ""
    entry_script: str = ""
    framework_version: str = ""
    scoring_path: str = "/score"
    schema: Mapping[str, object] = field(default_factory=dict)
    requests_at_once: int = 1
    variables: Mapping[str, str] = field(default_factory=dict)
    inherited: Mapping[str, str] = field(default_factory=dict)
    """Variables of the process that deployed it."""
    path_variables: Mapping[str, str] = field(default_factory=dict)


def app_root(folder: ServiceFolder, number: int) -> Path:
    return folder.revision(number) / _APP


def models_root(folder: ServiceFolder, number: int) -> Path:
    return folder.revision(number) / _MODELS


def find_revision(folder: ServiceFolder, number: int) -> Revision | None:
    """A revision that was completed before; None when its folder is missing or unreadable."""
    try:
        body = json.loads((folder.revision(number) / _FACTS).read_bytes())
        return from_json(Revision, body, _FACTS)
    except (OSError, ValueError, InvalidArgument):
        return None


def stage_files(folder: ServiceFolder, spec: ServiceSpec, cancelled: threading.Event) -> None:
    """Copy code and models to the folder of the spec's revision; does nothing when the folder exists.

    Raises NotFound for a missing blob, OSError, StagingCancelled when `cancelled` is set.
    """
    if folder.revision(spec.revision).is_dir():
        return
    beside = Path(tempfile.mkdtemp(prefix=f".r{spec.revision}.", dir=folder.root))
    try:
        stager = FileStager(FileBlobStore(folder.home / "blobs"), cancelled)
        (beside / _APP).mkdir()
        (beside / _MODELS).mkdir()
        stager.stage(spec.code, beside / _APP)
        stager.stage_models(spec.models, beside, _MODELS, folder.newest_revision())
        _link_models(beside / _APP)
        os.rename(beside, folder.revision(spec.revision))
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def complete_revision(folder: ServiceFolder, spec: ServiceSpec, built: BuiltEnvironment) -> Revision:
    """Write the facts of the revision; `find_revision` returns it afterwards."""
    revision = Revision(
        number=spec.revision,
        service=spec.name,
        scorer=spec.scorer,
        models=tuple(ModelName(model.name, model.version) for model in spec.models),
        python=str(built.python),
        environment_key=built.key,
        entry_script=spec.entry_script,
        framework_version=spec.framework_version,
        scoring_path=spec.scoring_path,
        schema=dict(spec.schema),
        requests_at_once=spec.scale.requests_at_once,
        variables=dict(spec.variables),
        inherited=dict(spec.build_variables),
        path_variables=dict(built.path_variables),
    )
    replace_file(folder.revision(spec.revision) / _FACTS, json.dumps(to_json(revision)).encode())
    return revision


def as_served(spec: ServiceSpec, revision: Revision) -> ServiceSpec:
    """The spec with scorer, models, path, schema and variables of this revision, which answers on its port."""
    return replace(
        spec,
        scorer=revision.scorer,
        models=tuple(ServedModel(model.name, model.version, ()) for model in revision.models),
        scoring_path=revision.scoring_path,
        schema=revision.schema,
        variables=revision.variables,
    )


def start_facts(folder: ServiceFolder, revision: Revision) -> Json:
    """Payload of the START frame: what a worker loads."""
    root = models_root(folder, revision.number)
    return {
        "scorer": revision.scorer.value,
        "service": revision.service,
        "entry_script": revision.entry_script,
        "app_root": str(app_root(folder, revision.number)),
        "models_root": str(root),
        "models": [
            {**to_json(model), "path": str(root / model.name / str(model.version))} for model in revision.models
        ],
        "requests_at_once": revision.requests_at_once,
        "framework_version": revision.framework_version,
    }


def _link_models(app: Path) -> None:
    """Older scoring scripts expect azureml-models in their working folder."""
    if not os.path.lexists(app / _MODELS):
        os.symlink(f"../{_MODELS}", app / _MODELS)


_MODEL_STAMPS = "models.json"
_Stamp = list[object]
"""Blob, mode, size, mtime and inode of a staged file: differs once a worker has written to it."""


class StagingCancelled(Exception):
    """The deployment that needs these files was cancelled."""


class FileStager:
    """Copies files of one revision from the home's blobs. `cancelled` may be set from any thread."""

    def __init__(self, blobs: FileBlobStore, cancelled: threading.Event) -> None:
        self._blobs, self._cancelled = blobs, cancelled

    def stage(self, entries: Iterable[FileEntry], folder: Path) -> None:
        """Copy them, never link: a worker may write to them.

        Raises NotFound for a missing blob, StagingCancelled, OSError.
        """
        place_files(list(entries), folder, self._blobs, _blob_missing, copy=self._copy)

    def stage_models(self, models: Iterable[ServedModel], revision: Path, name: str, earlier: Path | None) -> None:
        """Stage below `name` of a revision's folder; see `stage`. A file that the earlier revision has unchanged is
        hard-linked instead of copied."""
        known = _read_stamps(earlier) if earlier else {}
        stamps: dict[str, _Stamp] = {}
        for model in models:
            for entry in model.files:
                path = f"{name}/{model_folder(model)}/{entry.path}"
                if not (earlier and _is_linked(earlier / path, revision / path, known.get(path), entry)):
                    self.stage([entry], revision / name / model_folder(model))
                stamps[path] = _stamp(revision / path, entry)
        (revision / _MODEL_STAMPS).write_text(json.dumps(stamps), encoding="utf-8")

    def _copy(self, source: Path, target: Path) -> None:
        with open(source, "rb") as read, open(target, "wb") as written:
            copy_file(read.fileno(), written.fileno(), self._stop_if_cancelled)

    def _stop_if_cancelled(self, size: int) -> None:
        if self._cancelled.is_set():
            raise StagingCancelled


def model_folder(model: ServedModel) -> Path:
    if not model.name or "/" in model.name or "\0" in model.name or model.name in (".", ".."):
        raise InvalidArgument(f"{model.name!r} cannot be the name of a model.")
    return Path(model.name, str(model.version))


def _is_linked(source: Path, target: Path, stamp: _Stamp | None, entry: FileEntry) -> bool:
    try:
        if stamp is None or stamp != _stamp(source, entry):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, target, follow_symlinks=False)
    except OSError:  # gone, or a file system without links
        return False
    return True


def _stamp(file: Path, entry: FileEntry) -> _Stamp:
    found = file.lstat()
    return [entry.sha256, entry.mode, found.st_size, found.st_mtime_ns, found.st_ino]


def _read_stamps(revision: Path) -> dict[str, _Stamp]:
    try:
        return dict(json.loads((revision / _MODEL_STAMPS).read_bytes()))
    except (OSError, ValueError):
        return {}


def _blob_missing() -> NoReturn:
    raise NotFound(
        "Files of the web service are missing in the home folder.",
        hint="Register the model again, or deploy the code again.",
    )
