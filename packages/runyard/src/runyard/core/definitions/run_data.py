"""The data section of a run definition: dataset inputs, data references and outputs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from runyard.core.definitions.fields import NOTHING, Fields, JsonObject, JsonValue, Tags, as_object
from runyard.core.errors import InvalidArgument
from runyard.core.names import check_asset_name
from runyard.core.records.assets import AssetKind

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
LINK = "link"
"""Mode of an output that the script links itself."""


@dataclass(frozen=True)
class DatasetInput:
    name: str
    dataset_id: str
    mode: str
    """"direct", "mount" or "download"."""
    variable: str
    path_on_compute: str | None
    overwrite: bool


@dataclass(frozen=True)
class DataReference:
    """A path on a datastore that a run uses directly."""

    name: str
    datastore: str
    path: str
    mode: str
    """"mount", "download" or "upload"."""
    variable: str
    path_on_compute: str | None
    overwrite: bool


@dataclass(frozen=True)
class Registration:
    """Options of register_on_complete for an output."""

    name: str
    description: str = ""
    tags: Tags = field(default_factory=dict)
    table_format: JsonObject = field(default_factory=dict)
    """If set, the output is registered as a tabular dataset in this format."""


@dataclass(frozen=True)
class OutputData:
    name: str
    mode: str
    """"mount", "upload", or "link" if the script links it itself."""
    datastore: str
    """"" for the workspace's default."""
    destination: str
    """"" for the usual one."""
    variable: str
    path_on_compute: str | None
    overwrite: bool
    globs: tuple[str, ...]
    """Files to upload; empty means all."""
    registration: Registration | None


def relative_path(path: str, what: str) -> str:
    """The path without leading and trailing slashes. Raises InvalidArgument if it leaves its root."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in path:
        raise InvalidArgument(f"{what} is {path!r}, which leaves its root.", hint="Give a path below it, without '..'.")
    return "/".join(parts)


def dataset_inputs(definition: JsonObject) -> Mapping[str, DatasetInput]:
    found = {}
    for name, given in _entries(definition, "data", "dataset input"):
        dataset_id = given.section("dataLocation").section("dataset").raw.get("id")
        if not isinstance(dataset_id, str) or not dataset_id:
            raise InvalidArgument(f"Dataset input {name!r} names no saved dataset.")
        found[name] = DatasetInput(
            name=name,
            dataset_id=dataset_id,
            mode=_mode(given, name, ("direct", "mount", "download")),
            variable=_variable(given, name),
            path_on_compute=_path_on_compute(given, name),
            overwrite=given.flag("overwrite"),
        )
    return found


def data_references(definition: JsonObject) -> Mapping[str, DataReference]:
    found = {}
    for name, given in _entries(definition, "dataReferences", "data reference"):
        store = given.raw.get("dataStoreName")
        if not isinstance(store, str) or not store:
            raise InvalidArgument(f"Data reference {name!r} names no datastore.")
        found[name] = DataReference(
            name=name,
            datastore=store,
            path=relative_path(given.text("pathOnDataStore"), f"path_on_datastore of data reference {name!r}"),
            mode=_mode(given, name, ("mount", "download", "upload"), key="mode"),
            variable=_variable(given, name),
            path_on_compute=_path_on_compute(given, name),
            overwrite=given.flag("overwrite"),
        )
    return found


def output_data(definition: JsonObject) -> Mapping[str, OutputData]:
    found = {}
    for name, given in _entries(definition, "outputData", "output"):
        location = given.section("outputLocation").section("dataPath")
        options = given.section("additionalOptions")
        upload = options.section("uploadOptions")
        found[name] = OutputData(
            name=name,
            mode=_mode(given, name, ("mount", "upload", LINK)),
            datastore=location.text("datastoreName"),
            destination=location.text("relativePath"),
            variable=_variable(given, name),
            path_on_compute=_path_on_compute(given, name),
            overwrite=upload.flag("overwrite"),
            globs=_globs(upload.raw.get("sourceGlobs"), name),
            registration=_registration(options.section("registrationOptions"), name),
        )
    return found


def _entries(definition: JsonObject, key: str, what: str) -> Iterator[tuple[str, Fields]]:
    section = definition.get(key)
    if not section:
        return
    if not isinstance(section, Mapping):
        raise InvalidArgument(f"{key} of the run definition must be an object, got {type(section).__name__}.")
    for name, entry in section.items():
        if not NAME.fullmatch(name):
            raise InvalidArgument(
                f"{name!r} is not a name for a {what}.", hint="Use letters, digits and '_', beginning with a letter."
            )
        if not isinstance(entry, Mapping):
            raise InvalidArgument(f"The {what} {name!r} must be an object, got {type(entry).__name__}.")
        yield name, Fields(entry, f"{key}.{name}")


def _mode(given: Fields, name: str, known: tuple[str, ...], key: str = "mechanism") -> str:
    mode = given.text(key, "mount").lower()
    if mode not in known:
        raise InvalidArgument(f"The mode of {name!r} is {given.raw.get(key)!r}.", hint=f"Use {' or '.join(known)}.")
    return mode


def _variable(given: Fields, name: str) -> str:
    chosen = given.text("environmentVariableName", name)
    if not NAME.fullmatch(chosen):
        raise InvalidArgument(
            f"environmentVariableName of {name!r} is {chosen[:80]!r}.", hint="Use letters, digits and '_'."
        )
    return chosen


def _path_on_compute(given: Fields, name: str) -> str | None:
    path = given.text("pathOnCompute")
    if not path:
        return None
    inside = relative_path(path, f"path_on_compute of {name!r}")
    return f"/{inside}" if path.startswith("/") else inside


def _globs(value: JsonValue, name: str) -> tuple[str, ...]:
    globs = [value] if isinstance(value, str) and value else value or []
    if not isinstance(globs, list | tuple) or not all(isinstance(glob, str) for glob in globs):
        raise InvalidArgument(f"source_globs of output {name!r} must be a list of strings.")
    return tuple(relative_path(str(glob), f"source_globs of output {name!r}") for glob in globs)


def _registration(given: Fields, name: str) -> Registration | None:
    if not given.raw:
        return None
    wanted = given.raw.get("name")
    if not isinstance(wanted, str):
        raise InvalidArgument(f"register_on_complete of output {name!r} has no name.")
    check_asset_name(AssetKind.DATASET, wanted)
    for key in ("tags", "datasetRegistrationOptions"):
        if not isinstance(given.raw.get(key) or NOTHING, Mapping):
            raise InvalidArgument(f"{key} of register_on_complete of output {name!r} is no object.")
    table = given.section("datasetRegistrationOptions").raw.get("additionalTransformation")
    return Registration(
        name=wanted,
        description=given.text("description"),
        tags=given.strings("tags"),
        table_format=as_object(table, f"additionalTransformation of output {name!r}") if table else NOTHING,
    )
