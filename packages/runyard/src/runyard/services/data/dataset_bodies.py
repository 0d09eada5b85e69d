"""What a dataset may be made of, checked before it is stored."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from runyard.errors import InvalidArgument
from runyard.model.assets import AssetKind
from runyard.model.names import check_asset_name, check_relative_path, check_text
from runyard.planning.data_layout import shown
from runyard.planning.data_steps import steps_of

MOST_SOURCES = 20_000
LONGEST_ADDRESS = 8192
DEFINITION = ("type", "sources", "steps", "format")
"""What makes a version another one; the rest of a body may be changed in place."""
_KNOWN = (*DEFINITION, "description", "properties")


def checked_body(given: Mapping[str, Any]) -> dict[str, Any]:
    """With every key in its right form; unknown ones are refused. InvalidArgument names the source that is wrong."""
    for key in given:
        if key not in (*_KNOWN, "pin"):
            raise InvalidArgument(f"{ascii(key)[:80]} is not a part of a dataset.", hint=f"Known: {', '.join(_KNOWN)}.")
    kind = given.get("type", "file")
    if kind not in ("file", "tabular"):
        raise InvalidArgument(f"The type of a dataset is 'file' or 'tabular', not {ascii(kind)[:80]}.")
    body: dict[str, Any] = {"type": kind, "sources": _sources(given.get("sources"))}
    body["steps"] = _steps(kind, given.get("steps") or [])
    if format := _object(given, "format"):
        body["format"] = format
    if given.get("description"):
        body["description"] = check_text(str(given["description"]), "description")
    if properties := _object(given, "properties"):
        body["properties"] = properties
    return body


def definition_of(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: body.get(key) or None for key in DEFINITION}


def _sources(given: Any) -> list[dict[str, str]]:
    if not isinstance(given, list) or not given or not all(isinstance(source, dict) for source in given):
        raise InvalidArgument(
            "A dataset takes a list of sources, each with 'url' or with 'datastore' and 'path'.",
            hint="Give from_files at least one path.",
        )
    if len(given) > MOST_SOURCES:
        raise InvalidArgument(f"A dataset takes at most {MOST_SOURCES:,} sources, got {len(given):,}.", hint="Use '*'.")
    sources = [_source(source) for source in given]
    if len({"url" in source for source in sources}) > 1:
        raise InvalidArgument("path mixes web addresses and datastore paths.", hint="Make two datasets of them.")
    return sources


def _source(source: Mapping[str, Any]) -> dict[str, str]:
    datastore, path = source.get("datastore"), source.get("path")
    if datastore is None:
        return {"url": _web_address(source.get("url"))}
    if not isinstance(datastore, str) or not isinstance(path, str | None):
        raise InvalidArgument("datastore and path of a source are strings.")
    check_asset_name(AssetKind.DATASTORE, datastore)
    path = (path or "").strip("/")
    return {"datastore": datastore, "path": check_relative_path(path, "path") if path not in ("", ".") else ""}


def _web_address(url: Any) -> str:
    if not isinstance(url, str) or len(url) > LONGEST_ADDRESS:
        raise InvalidArgument(f"{ascii(url)[:80]} is not a web address.", hint="Use http:// or https:// addresses.")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.username or parts.password:
        raise InvalidArgument(
            f"An address of {parts.hostname!r} holds a user name or password.",
            hint="Use an address that needs none, or download the file and upload it to a datastore.",
        )
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or any(ord(c) <= 32 for c in url):
        raise InvalidArgument(
            f"{ascii(shown(url) if parts.scheme else url)[:200]} is not a web address.",
            hint="Use http:// or https:// addresses.",
        )
    return check_text(url, "path")


def _steps(kind: str, given: Any) -> list[Any]:
    """Those of files are tried out; those of tables are the SDK's own."""
    if kind == "file":
        steps_of(given)
    elif not isinstance(given, list):
        raise InvalidArgument("steps is a list.")
    return list(given)


def _object(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = given.get(key) or {}
    if not isinstance(value, dict):
        raise InvalidArgument(f"{key} of a dataset is an object.")
    return value
