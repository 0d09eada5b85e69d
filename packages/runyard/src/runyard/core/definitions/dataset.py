"""Definition of a dataset: its sources, and how they are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from runyard.core.definitions.fields import NOTHING, JsonObject, JsonValue, read_once
from runyard.core.errors import InvalidArgument
from runyard.core.names import check_asset_name, check_relative_path, check_text
from runyard.core.records.assets import AssetKind

MOST_SOURCES = 20_000
LONGEST_ADDRESS = 8192
_DEFINITION = ("type", "sources", "steps", "format")
"""Fields whose change creates a new version; the others are changed in place."""
_KNOWN = (*_DEFINITION, "description", "properties")
_PIN = "pin"


@dataclass(frozen=True)
class DatasetSource:
    """A web address, or a path on a datastore."""

    url: str = ""
    """"" for a path of a datastore."""
    datastore: str = ""
    path: str = ""

    def to_json(self) -> JsonObject:
        return {"url": self.url} if self.url else {"datastore": self.datastore, "path": self.path}


@dataclass(frozen=True)
class DatasetDefinition:
    """`raw` is stored and shown as it is. Each field is read on first use."""

    kind: ClassVar[AssetKind] = AssetKind.DATASET
    raw: JsonObject = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: JsonObject) -> "DatasetDefinition":
        """Check every field and refuse unknown ones. Raises InvalidArgument naming the wrong source.

        Steps of a file dataset are checked when they are applied.
        """
        for key in raw:
            if key not in (*_KNOWN, _PIN):
                raise InvalidArgument(
                    f"{ascii(key)[:80]} is not a part of a dataset.", hint=f"Known: {', '.join(_KNOWN)}."
                )
        type_ = raw.get("type", "file")
        if type_ not in ("file", "tabular"):
            raise InvalidArgument(f"The type of a dataset is 'file' or 'tabular', not {ascii(type_)[:80]}.")
        steps = raw.get("steps") or []
        if not isinstance(steps, list):
            raise InvalidArgument("steps is a list.")
        kept: dict[str, JsonValue] = {
            "type": type_,
            "sources": [source.to_json() for source in _checked_sources(raw.get("sources"))],
            "steps": list(steps),
        }
        if format := _object(raw, "format"):
            kept["format"] = format
        if raw.get("description"):
            kept["description"] = check_text(str(raw["description"]), "description")
        if properties := _object(raw, "properties"):
            kept["properties"] = properties
        return cls(kept)

    @classmethod
    def of_path(cls, datastore: str, path: str, *, table_format: JsonObject = NOTHING) -> "DatasetDefinition":
        """Dataset of all files at a path of a datastore; a tabular one if a format is given."""
        source: JsonObject = {"datastore": datastore, "path": path}
        if not table_format:
            return cls.parse({"type": "file", "sources": [source]})
        return cls.parse({"type": "tabular", "sources": [source], "format": dict(table_format)})

    @property
    def is_of_files(self) -> bool:
        """True for a file dataset, False for a table."""
        return self.raw.get("type") == "file"

    @read_once
    def sources(self) -> tuple[DatasetSource, ...]:
        """Sources: all web addresses, or all datastore paths."""
        rows = self.raw.get("sources")
        given = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list | tuple) else []
        return tuple(
            DatasetSource(str(row.get("url") or ""), str(row.get("datastore") or ""), str(row.get("path") or ""))
            for row in given
        )

    @property
    def steps(self) -> Sequence[JsonValue]:
        steps = self.raw.get("steps")
        return steps if isinstance(steps, list) else ()

    @property
    def pin(self) -> JsonObject | None:
        """The files at the creation of its version; None if they were not recorded."""
        pin = self.raw.get(_PIN)
        return pin if isinstance(pin, Mapping) and pin else None

    @property
    def manifest(self) -> str | None:
        """Hash of the list of files that it is pinned to."""
        manifest = (self.pin or {}).get("manifest")
        return manifest if isinstance(manifest, str) else None

    def with_pin(self, pin: JsonObject | None) -> "DatasetDefinition":
        kept = {name: value for name, value in self.raw.items() if name != _PIN}
        return DatasetDefinition({**kept, _PIN: pin} if pin else kept)

    def described_as(self, description: str) -> "DatasetDefinition":
        return DatasetDefinition({**self.raw, "description": description}) if description else self

    def means_the_same(self, other: "DatasetDefinition") -> bool:
        """True if both have the same sources and steps; descriptions and properties do not count."""
        return all((self.raw.get(name) or None) == (other.raw.get(name) or None) for name in _DEFINITION)


def shown_address(url: str) -> str:
    """Address for messages: without the login and without the query, which may hold a signature."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _checked_sources(given: JsonValue) -> list[DatasetSource]:
    rows = [row for row in given if isinstance(row, Mapping)] if isinstance(given, list) else []
    if not isinstance(given, list) or not given or len(rows) != len(given):
        raise InvalidArgument(
            "A dataset takes a list of sources, each with 'url' or with 'datastore' and 'path'.",
            hint="Give from_files at least one path.",
        )
    if len(rows) > MOST_SOURCES:
        raise InvalidArgument(f"A dataset takes at most {MOST_SOURCES:,} sources, got {len(rows):,}.", hint="Use '*'.")
    sources = [_checked_source(row) for row in rows]
    if len({bool(source.url) for source in sources}) > 1:
        raise InvalidArgument("path mixes web addresses and datastore paths.", hint="Make two datasets of them.")
    return sources


def _checked_source(source: JsonObject) -> DatasetSource:
    datastore, path = source.get("datastore"), source.get("path")
    if datastore is None:
        return DatasetSource(url=_web_address(source.get("url")))
    if not isinstance(datastore, str) or not isinstance(path, str | None):
        raise InvalidArgument("datastore and path of a source are strings.")
    check_asset_name(AssetKind.DATASTORE, datastore)
    path = (path or "").strip("/")
    return DatasetSource(datastore=datastore, path=check_relative_path(path, "path") if path not in ("", ".") else "")


def _web_address(url: JsonValue) -> str:
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
            f"{ascii(shown_address(url) if parts.scheme else url)[:200]} is not a web address.",
            hint="Use http:// or https:// addresses.",
        )
    return check_text(url, "path")


def _object(given: JsonObject, key: str) -> JsonObject:
    value = given.get(key) or {}
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"{key} of a dataset is an object.")
    return value
