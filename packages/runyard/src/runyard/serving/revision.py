"""A revision of a web service on disk: its staged files and the facts that its workers are started with."""

import json
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from runyard.blobs.files import FileBlobStore
from runyard.core.record_json import from_json, to_json
from runyard.environments.durable import write_beside
from runyard.errors import InvalidArgument, Json
from runyard.model.web_services import Scorer, ServedModel, ServiceSpec
from runyard.ports.environments import BuiltEnvironment
from runyard.serving.folder import ServiceFolder
from runyard.serving.laying import FileLaying

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


def lay_files(folder: ServiceFolder, spec: ServiceSpec, cancelled: threading.Event) -> None:
    """Copy code and models to the folder of the spec's revision; does nothing when the folder exists.

    Raises NotFound for a missing blob, OSError, StagingCancelled when `cancelled` is set.
    """
    if folder.revision(spec.revision).is_dir():
        return
    beside = Path(tempfile.mkdtemp(prefix=f".r{spec.revision}.", dir=folder.root))
    try:
        stager = FileLaying(FileBlobStore(folder.home / "blobs"), cancelled)
        (beside / _APP).mkdir()
        (beside / _MODELS).mkdir()
        stager.stage(spec.code, beside / _APP)
        stager.stage_models(spec.models, beside, _MODELS, folder.newest_revision())
        _link_models(beside / _APP)
        os.rename(beside, folder.revision(spec.revision))
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def finish(folder: ServiceFolder, spec: ServiceSpec, built: BuiltEnvironment) -> Revision:
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
    write_beside(folder.revision(spec.revision) / _FACTS, json.dumps(to_json(revision)).encode())
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
