"""Where each file of a dataset lies below the dataset's root: `to_path()`, mount and download agree."""

from collections.abc import Sequence
from urllib.parse import quote, urlsplit

GLOB_CHARACTERS = frozenset("*?[")


def path_in_dataset(urls: Sequence[str], url: str) -> str:
    """Relative path of one address: its file name when it is the only source, else with scheme and host."""
    parts = urlsplit(url)
    segments = [_safe(segment) for segment in parts.path.split("/") if segment] or ["index"]
    if parts.query:
        segments[-1] += quote("?" + parts.query, safe="=&")
    if len(urls) == 1:
        return segments[-1]
    return "/".join([f"{parts.scheme}%3A", "%2F" + quote(parts.netloc.rpartition("@")[2], safe=""), *segments])


def shown(url: str) -> str:
    """The address for messages: a query may hold a signature, which is a secret."""
    return urlsplit(url)._replace(query="", fragment="").geturl()


def fixed_part(pattern: str) -> str:
    """The folder of a datastore path before its first glob segment; the whole path when it has none."""
    kept: list[str] = []
    for segment in pattern.strip("/").split("/"):
        if GLOB_CHARACTERS & set(segment):
            break
        kept.append(segment)
    return "/".join(kept)


def is_glob(pattern: str) -> bool:
    return bool(GLOB_CHARACTERS & set(pattern))


def _safe(segment: str) -> str:
    return quote(segment, safe="%!$&'()*+,;=:@~") if segment not in (".", "..") else quote(segment).replace(".", "%2E")
