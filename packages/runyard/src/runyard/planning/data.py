"""The data that a run definition asks for, as items that a node can bring."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runyard.errors import InvalidArgument
from runyard.model.plan import DataItem

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
# A dataset called "path" must not cost a run its PATH; its arguments name the data all the same.
NEVER_SET = frozenset(
    {"PATH", "HOME", "USER", "LANG", "TMPDIR", "TZ", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD"}
)
DEFAULT_DESTINATION = "dataset/{run-id}/{output-name}"
LINK = "link"
_REFERENCE_PREFIX = "AZUREML_DATAREFERENCE_"
Entry = Mapping[str, Any]


def plan_data(definition: Mapping[str, Any], run_id: str, default_datastore: str) -> tuple[DataItem, ...]:
    """What a run wants at hand; whether those datasets and datastores are there is not looked at.
    InvalidArgument names the input or output that cannot be brought."""
    items = (*_references(definition), *_datasets(definition), *_outputs(definition, run_id, default_datastore))
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise InvalidArgument(
                f"Two inputs or outputs of the run are called {item.name!r}.", hint="Give each a name of its own."
            )
        seen.add(item.name)
    return items


def dataset_inputs(definition: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """(id of the saved dataset, mode) of each dataset that a run reads, by the input's name;
    mode is "direct", "mount" or "download"."""
    return {
        name: (_dataset_id(entry, name), _mechanism(entry, name, ("direct", "mount", "download")))
        for name, entry in _section(definition, "data", "dataset input")
    }


def data_references(definition: Mapping[str, Any]) -> Sequence[DataItem]:
    """The places on datastores that a run uses as they are."""
    return list(_references(definition))


def output_mechanisms(definition: Mapping[str, Any]) -> dict[str, str]:
    """By the output's name: "mount", "upload", or "link" for one that the script links itself."""
    return {
        name: _mechanism(entry, name, ("mount", "upload", LINK))
        for name, entry in _section(definition, "outputData", "output")
    }


def output_options(definition: Mapping[str, Any], name: str, key: str) -> Entry:
    """One of the additional options of an output, "registrationOptions" or "uploadOptions"; empty where not given."""
    entry = dict(_section(definition, "outputData", "output")).get(name, {})
    return _object(_object(entry, "additionalOptions", name), key, name)


def settable(name: str) -> bool:
    """Whether a variable of that name can be set for a script without breaking it or hiding the platform's own."""
    is_ours = name.startswith(("AZUREML_", "RUNYARD_")) and not name.startswith(_REFERENCE_PREFIX)
    return name not in NEVER_SET and not is_ours


def relative_path(path: str, what: str) -> str:
    """The path without leading or trailing slashes; InvalidArgument if it could lead out of its root."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in path:
        raise InvalidArgument(f"{what} is {path!r}, which leaves its root.", hint="Give a path below it, without '..'.")
    return "/".join(parts)


def _references(definition: Mapping[str, Any]) -> Iterator[DataItem]:
    for name, entry in _section(definition, "dataReferences", "data reference"):
        store = entry.get("dataStoreName")
        if not isinstance(store, str) or not store:
            raise InvalidArgument(f"Data reference {name!r} names no datastore.")
        yield DataItem(
            name=name,
            kind="reference",
            mode=_mechanism(entry, name, ("mount", "download", "upload"), key="mode"),
            placeholder=f"$AZUREML_DATAREFERENCE_{name}",
            datastore=store,
            path=relative_path(_text(entry, "pathOnDataStore"), f"path_on_datastore of data reference {name!r}"),
            variables=_variables(name, entry),
            path_on_compute=_path_on_compute(entry, name),
            overwrite=bool(entry.get("overwrite")),
        )


def _datasets(definition: Mapping[str, Any]) -> Iterator[DataItem]:
    inputs = dataset_inputs(definition)
    for name, entry in _section(definition, "data", "dataset input"):
        dataset_id, mode = inputs[name]
        if mode == "direct":
            continue
        yield DataItem(
            name=name,
            kind="dataset",
            mode=mode,
            placeholder=f"DatasetConsumptionConfig:{name}",
            dataset_id=dataset_id,
            variables=_variables(name, entry),
            path_on_compute=_path_on_compute(entry, name),
            overwrite=bool(entry.get("overwrite")),
        )


def _outputs(definition: Mapping[str, Any], run_id: str, default_datastore: str) -> Iterator[DataItem]:
    modes = output_mechanisms(definition)
    for name, entry in _section(definition, "outputData", "output"):
        if modes[name] == LINK:
            continue
        location = _object(_object(entry, "outputLocation", name), "dataPath", name)
        upload = output_options(definition, name, "uploadOptions")
        destination = _text(location, "relativePath") or DEFAULT_DESTINATION
        filled = destination.replace("{run-id}", run_id).replace("{output-name}", name)
        yield DataItem(
            name=name,
            kind="output",
            mode=modes[name],
            placeholder=f"DatasetOutputConfig:{name}",
            datastore=_text(location, "datastoreName") or default_datastore,
            path=relative_path(filled, f"destination of output {name!r}"),
            variables=_variables(name, entry),
            path_on_compute=_path_on_compute(entry, name),
            overwrite=bool(upload.get("overwrite")),
            globs=_globs(upload, name),
        )


def _section(definition: Mapping[str, Any], key: str, what: str) -> Iterator[tuple[str, Entry]]:
    section = definition.get(key) or {}
    if not isinstance(section, Mapping):
        raise InvalidArgument(f"{key} of the run definition must be an object, got {type(section).__name__}.")
    for name, entry in section.items():
        if not NAME.fullmatch(name):
            raise InvalidArgument(
                f"{name!r} is not a name for a {what}.", hint="Use letters, digits and '_', beginning with a letter."
            )
        if not isinstance(entry, Mapping):
            raise InvalidArgument(f"The {what} {name!r} must be an object, got {type(entry).__name__}.")
        yield name, entry


def _dataset_id(entry: Entry, name: str) -> str:
    dataset_id = _object(_object(entry, "dataLocation", name), "dataset", name).get("id")
    if not isinstance(dataset_id, str) or not dataset_id:
        raise InvalidArgument(f"Dataset input {name!r} names no saved dataset.")
    return dataset_id


def _object(entry: Entry, key: str, name: str) -> Entry:
    value = entry.get(key) or {}
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"{key} of {name!r} must be an object, got {type(value).__name__}.")
    return value


def _text(entry: Entry, key: str) -> str:
    return str(entry.get(key) or "")


def _mechanism(entry: Entry, name: str, known: tuple[str, ...], key: str = "mechanism") -> str:
    mode = str(entry.get(key) or "mount").lower()
    if mode not in known:
        raise InvalidArgument(f"The mode of {name!r} is {entry.get(key)!r}.", hint=f"Use {' or '.join(known)}.")
    return mode


def _globs(upload: Entry, name: str) -> tuple[str, ...]:
    globs = upload.get("sourceGlobs") or []
    globs = [globs] if isinstance(globs, str) else globs
    if not isinstance(globs, list) or not all(isinstance(glob, str) for glob in globs):
        raise InvalidArgument(f"source_globs of output {name!r} must be a list of strings.")
    return tuple(relative_path(glob, f"source_globs of output {name!r}") for glob in globs)


def _path_on_compute(entry: Entry, name: str) -> str | None:
    path = entry.get("pathOnCompute")
    if not path:
        return None
    inside = relative_path(str(path), f"path_on_compute of {name!r}")
    return f"/{inside}" if str(path).startswith("/") else inside


def _variables(name: str, entry: Entry) -> tuple[str, ...]:
    chosen = _text(entry, "environmentVariableName") or name
    if not NAME.fullmatch(chosen):
        raise InvalidArgument(
            f"environmentVariableName of {name!r} is {chosen[:80]!r}.", hint="Use letters, digits and '_'."
        )
    wanted = (f"{_REFERENCE_PREFIX}{name}", chosen, chosen.upper(), name, name.upper())
    return tuple(variable for variable in dict.fromkeys(wanted) if settable(variable))
