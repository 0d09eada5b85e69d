"""Typed definitions of assets. `raw` is stored and shown as it is, fields of other versions included."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from runyard.core.definitions.compute import ComputeDefinition
from runyard.core.definitions.dataset import DatasetDefinition
from runyard.core.definitions.deployment import DeploymentSpec
from runyard.core.definitions.environment import EnvironmentDefinition, file_entries
from runyard.core.definitions.fields import NOTHING, Fields, JsonObject, JsonValue, read_once, shown, whole_number
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.records.assets import AssetKind
from runyard.core.records.files import FileEntry
from runyard.core.records.web_services import ServiceType


@dataclass(frozen=True)
class ModelDefinition:
    """A registered model: its files, or the run and path to take them from, and its origin."""

    kind: ClassVar[AssetKind] = AssetKind.MODEL
    raw: JsonObject = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: JsonObject) -> "ModelDefinition":
        """Raises InvalidArgument naming the wrong field."""
        found = cls(raw)
        _ = found.run_id, found.framework, found.framework_version, found.model_path, found.resources
        if found.files_of_run is None:
            _ = found.files
        return found

    @read_once
    def files(self) -> tuple[FileEntry, ...]:
        rows = self.raw.get("files")
        if not isinstance(rows, list | tuple):
            raise InvalidArgument("A model takes files as a list of [path, sha256, size, mode].")
        return file_entries(rows, "files of a model", "path")

    @property
    def model_path(self) -> str | None:
        """Path of its files in its run; None if the files are given."""
        return None if self.raw.get("model_path") is None else self._fields.text("model_path")

    @property
    def run_id(self) -> str:
        return self._fields.text("run_id")

    @property
    def framework(self) -> str:
        return self._fields.text("framework")

    @property
    def framework_version(self) -> str:
        return self._fields.text("framework_version")

    @property
    def client(self) -> JsonObject | None:
        """Python and packages of the client that registered it, as far as it reported them."""
        reported = self.raw.get("client")
        return reported if isinstance(reported, Mapping) else None

    @property
    def properties(self) -> JsonObject:
        return properties_in(self.raw)

    @property
    def files_of_run(self) -> str | None:
        """Path to take its files from in its run; None if it lists its own files."""
        return None if "files" in self.raw else self.model_path

    @property
    def resources(self) -> Mapping[str, float]:
        """The given values of cpu, memory_in_gb and gpu of its resource_configuration."""
        wanted = ("cpu", "memory_in_gb", "gpu")
        return {name: _amount(name, self.raw[name]) for name in wanted if self.raw.get(name) is not None}

    @property
    def datasets(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a scenario and a dataset id. Malformed entries are skipped."""
        given = self.raw.get("datasets")
        pairs = [pair for pair in given if isinstance(pair, list | tuple)] if isinstance(given, list | tuple) else []
        return tuple((str(pair[0]), str(pair[1])) for pair in pairs if len(pair) == 2)

    def with_files(self, files: list[FileEntry], run_id: str) -> "ModelDefinition":
        """The definition to store: with the files, without the path that they came from."""
        rows: JsonValue = [[entry.path, entry.sha256, entry.size, entry.mode] for entry in files]
        kept = {name: value for name, value in self.raw.items() if name != "model_path"}
        return ModelDefinition({**kept, "files": rows, **({"run_id": run_id} if run_id else {})})

    @property
    def _fields(self) -> Fields:
        return Fields(self.raw, "model")


@dataclass(frozen=True)
class ImageDefinition:
    """A scoring script with its environment and models, for later deployment."""

    kind: ClassVar[AssetKind] = AssetKind.IMAGE
    raw: JsonObject = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: JsonObject) -> "ImageDefinition":
        """Raises InvalidArgument as a deployment of the same models and script does."""
        if raw.get("inference") is None:
            raise InvalidArgument("An image needs a scoring script.", hint="Give execution_script in image_config.")
        found = cls(raw)
        _ = found.deployment
        return found

    @read_once
    def deployment(self) -> DeploymentSpec:
        """The deployment of this image."""
        given = {"models": self.raw.get("models"), "inference": self.raw.get("inference")}
        return DeploymentSpec.parse(given, type=ServiceType.ACI.value)

    @property
    def properties(self) -> JsonObject:
        return properties_in(self.raw)

    def with_fields(self, **fields: JsonValue) -> "ImageDefinition":
        """Return a copy with these fields replaced."""
        return ImageDefinition({**self.raw, **fields})


@dataclass(frozen=True)
class StoredDatastore:
    """A datastore as stored: without its credentials, which are in the vault."""

    kind: ClassVar[AssetKind] = AssetKind.DATASTORE
    raw: JsonObject = field(default_factory=dict)

    @property
    def is_default(self) -> bool:
        return bool(self.raw.get("is_default"))


@dataclass(frozen=True)
class DatastoreDefinition:
    """A checked datastore: its kind accepts every setting and credential."""

    name: str
    kind: str
    settings: Mapping[str, str]
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


NewAsset: TypeAlias = ModelDefinition | ImageDefinition | EnvironmentDefinition | ComputeDefinition
"""Assets that are registered by name and definition. Datasets and datastores have their own routes."""
AnyAsset: TypeAlias = NewAsset | DatasetDefinition | StoredDatastore
_BY_KIND: Mapping[AssetKind, type[AnyAsset]] = {
    one.kind: one
    for one in (
        ModelDefinition,
        ImageDefinition,
        EnvironmentDefinition,
        ComputeDefinition,
        DatasetDefinition,
        StoredDatastore,
    )
}
_PARSED: Mapping[AssetKind, Callable[[JsonObject], NewAsset]] = {
    AssetKind.MODEL: ModelDefinition.parse,
    AssetKind.IMAGE: ImageDefinition.parse,
    AssetKind.ENVIRONMENT: EnvironmentDefinition.parse,
    AssetKind.COMPUTE: ComputeDefinition.parse,
}


def asset_kind(word: str) -> AssetKind:
    """Find the kind by its word on the wire. Raises NotFound."""
    for known in _BY_KIND:
        if known.value == word:
            return known
    raise NotFound(f"There is no asset kind {word!r}. Known: {', '.join(sorted(_BY_KIND))}.")


def stored_asset(kind: AssetKind, raw: JsonObject) -> AnyAsset:
    """Definition of a stored asset; its fields are read on first use."""
    return _BY_KIND[kind](raw)


def new_asset(kind: AssetKind, raw: JsonObject) -> NewAsset:
    """Parse the definition of a new asset. Raises InvalidArgument naming the wrong field. Not for datasets and
    datastores."""
    return _PARSED[kind](raw)


def _amount(name: str, value: JsonValue) -> float:
    if name == "gpu":
        return whole_number(value, "model.gpu")
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise InvalidArgument(f"model.{name} must be a number of at least 0, got {shown(value)}.")
    return value


def properties_in(raw: JsonObject) -> JsonObject:
    given = raw.get("properties") or NOTHING
    if not isinstance(given, Mapping):
        raise InvalidArgument("properties must be an object.")
    return given


def given_texts(given: JsonObject) -> Mapping[str, str]:
    """Settings or credentials of a datastore; null counts as empty. An error never contains the value."""
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise InvalidArgument(f"{name[:80]} must be a string, got {type(value).__name__}.")
    return {name: str(value or "") for name, value in given.items()}
