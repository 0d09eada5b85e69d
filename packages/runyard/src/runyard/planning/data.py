import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runyard.errors import InvalidArgument
from runyard.model.plan import DataItem

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
# A dataset called "path" must not cost a run its PATH; its arguments name the data all the same.
NEVER_SET = frozenset(
    {"PATH", "HOME", "USER", "LANG", "TMPDIR", "TZ", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD"}
)
MODES = {"mount": "mount", "download": "download", "upload": "upload"}
DatastoreFolder = Callable[[str], Path]


def plan_data(
    definition: Mapping[str, Any], datasets: Mapping[str, Mapping[str, Any]], datastore_folder: DatastoreFolder
) -> tuple[DataItem, ...]:
    """What a run wants at hand. `datasets` holds the body of every dataset that the definition names, by id;
    `datastore_folder` raises NotFound for an unknown name. InvalidArgument names the input that cannot be brought."""
    return (*_references(definition, datastore_folder), *_datasets(definition, datasets, datastore_folder))


def dataset_ids(definition: Mapping[str, Any]) -> list[str]:
    """Ids of the saved datasets that a run reads."""
    entries = (definition.get("data") or {}).values()
    return [str(entry["dataLocation"]["dataset"]["id"]) for entry in entries]


def _references(definition: Mapping[str, Any], datastore_folder: DatastoreFolder) -> Iterator[DataItem]:
    for name, entry in (definition.get("dataReferences") or {}).items():
        _check_name(name, "data reference")
        path = relative_path(str(entry.get("pathOnDataStore") or ""), f"path_on_datastore of data reference {name!r}")
        store = str(entry["dataStoreName"])
        yield DataItem(
            name=name,
            mode=_mode(str(entry.get("mode") or "mount"), name),
            placeholder=f"$AZUREML_DATAREFERENCE_{name}",
            source={"folder": str(datastore_folder(store)), "path": path, "datastore": store},
            variables=(f"AZUREML_DATAREFERENCE_{name}", *_both_cases(name)),
            path_on_compute=_path_on_compute(entry, name),
        )


def _datasets(
    definition: Mapping[str, Any], datasets: Mapping[str, Mapping[str, Any]], datastore_folder: DatastoreFolder
) -> Iterator[DataItem]:
    for name, entry in (definition.get("data") or {}).items():
        _check_name(name, "dataset input")
        if str(entry.get("mechanism") or "").lower() == "direct":
            continue
        body = datasets[str(entry["dataLocation"]["dataset"]["id"])]
        yield DataItem(
            name=name,
            mode=_mode(str(entry.get("mechanism") or "mount"), name),
            placeholder=f"DatasetConsumptionConfig:{name}",
            source=_source(name, body.get("sources") or [], datastore_folder),
            variables=tuple(
                dict.fromkeys([*_both_cases(str(entry.get("environmentVariableName") or name)), *_both_cases(name)])
            ),
            path_on_compute=_path_on_compute(entry, name),
        )


def _source(name: str, sources: list[Mapping[str, Any]], datastore_folder: DatastoreFolder) -> Mapping[str, object]:
    if not sources:
        raise InvalidArgument(f"Dataset input {name!r} has no files.", hint="Give Dataset.File.from_files a path.")
    if all("url" in source for source in sources):
        return {"urls": [_web_address(name, str(source["url"])) for source in sources]}
    chosen = []
    for source in sources:
        path = relative_path(str(source.get("path") or ""), f"a path of dataset input {name!r}")
        store = str(source["datastore"])
        chosen.append([store, str(datastore_folder(store)), path])
    return {"files": chosen}


def relative_path(path: str, what: str) -> str:
    """The path without leading or trailing slashes; InvalidArgument if it could lead out of its root."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in path:
        raise InvalidArgument(f"{what} is {path!r}, which leaves its root.", hint="Give a path below it, without '..'.")
    return "/".join(parts)


def _web_address(name: str, url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.username or parts.password:
        raise InvalidArgument(
            f"Dataset input {name!r} names an address of {parts.hostname!r} with a user name or password in it.",
            hint="Use an address that needs none, or download the file and upload it to a datastore.",
        )
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or any(ord(c) <= 32 for c in url):
        raise InvalidArgument(
            f"Dataset input {name!r} names {url!r}, which is not a web address.",
            hint="Use http:// or https:// addresses.",
        )
    return url


def _mode(text: str, name: str) -> str:
    if text.lower() not in MODES:
        raise InvalidArgument(f"The mode of data input {name!r} is {text!r}.", hint="Use mount, download or upload.")
    return MODES[text.lower()]


def _check_name(name: str, what: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name!r} is not a name for a {what}.", hint="Use letters, digits and '_', beginning with a letter."
        )


def _path_on_compute(entry: Mapping[str, Any], name: str) -> str | None:
    path = entry.get("pathOnCompute")
    if not path:
        return None
    inside = relative_path(str(path), f"path_on_compute of {name!r}")
    return f"/{inside}" if str(path).startswith("/") else inside


def _both_cases(name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in (name, name.upper()) if each not in NEVER_SET))
