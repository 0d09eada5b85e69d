"""Assets as clients write them, typed; `raw` is what is stored and shown, with fields of other versions in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runyard.core.definitions.environment import file_entries
from runyard.core.definitions.fields import Fields, JsonObject, JsonValue, read_once
from runyard.errors import InvalidArgument
from runyard.model.files import FileEntry


@dataclass(frozen=True)
class ModelDefinition:
    """A registered model: its files, or the run and path that they are taken from, and how it was made."""

    raw: JsonObject = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: JsonObject) -> "ModelDefinition":
        """Raises InvalidArgument naming the field that is not as it must be."""
        found = cls(raw)
        _ = found.run_id, found.framework, found.framework_version, found.model_path
        if found.model_path is None or "files" in raw:
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
        """Where its files are among those of its run; None where they are given."""
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
        """The Python and packages of whoever registered it, as far as they were told."""
        told = self.raw.get("client")
        return told if isinstance(told, Mapping) else None

    @property
    def resources(self) -> Mapping[str, JsonValue]:
        """cpu, memory_in_gb and gpu of its resource_configuration, those that were given."""
        wanted = ("cpu", "memory_in_gb", "gpu")
        return {name: self.raw[name] for name in wanted if self.raw.get(name) is not None}

    @property
    def datasets(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a scenario and a dataset's id; anybody may have written them otherwise."""
        given = self.raw.get("datasets")
        pairs = [pair for pair in given if isinstance(pair, list | tuple)] if isinstance(given, list | tuple) else []
        return tuple((str(pair[0]), str(pair[1])) for pair in pairs if len(pair) == 2)

    def with_files(self, files: list[FileEntry], run_id: str) -> "ModelDefinition":
        """As it is stored: with the files themselves, and without the path that they came from."""
        rows: JsonValue = [[entry.path, entry.sha256, entry.size, entry.mode] for entry in files]
        kept = {name: value for name, value in self.raw.items() if name != "model_path"}
        return ModelDefinition({**kept, "files": rows, **({"run_id": run_id} if run_id else {})})

    @property
    def _fields(self) -> Fields:
        return Fields(self.raw, "model")


@dataclass(frozen=True)
class ImageDefinition:
    """A scoring script with its environment and models, to be deployed later."""

    raw: JsonObject = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: JsonObject) -> "ImageDefinition":
        if raw.get("inference") is None:
            raise InvalidArgument("An image needs a scoring script.", hint="Give execution_script in image_config.")
        return cls(raw)


@dataclass(frozen=True)
class DatastoreDefinition:
    """A place for data, checked: every setting and credential is one that its kind takes."""

    name: str
    kind: str
    settings: Mapping[str, str]
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
