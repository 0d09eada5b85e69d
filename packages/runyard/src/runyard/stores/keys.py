from collections.abc import Iterable, Mapping
from hashlib import blake2b

from runyard.stores.column_types import storable

_LONGEST = 300  # PostgreSQL refuses index entries above 2,704 bytes; a key is up to four bytes a character


def index_key(text: str) -> str:
    """The text itself, or its beginning and a digest if it is too long for an index."""
    clean = storable(text)
    return clean if len(clean) <= _LONGEST else f"{clean[:_LONGEST]}\x1f{_digest(clean).hex()}"


def label(workspace: str, group: str, key: str, value: str | None = None) -> bytes:
    """Digest to find runs by one equality: those with the tag or property (`group`) at all, or with this value."""
    return _digest("\x1f".join([workspace, group, key] if value is None else [workspace, group, key, value]))


def labels_of(workspace: str, tags: Mapping[str, str], properties: Mapping[str, str]) -> set[bytes]:
    return set(_labels(workspace, "tag", tags)) | set(_labels(workspace, "property", properties))


def _labels(workspace: str, group: str, pairs: Mapping[str, str]) -> Iterable[bytes]:
    for key, value in pairs.items():
        yield label(workspace, group, key)
        yield label(workspace, group, key, str(value))


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
