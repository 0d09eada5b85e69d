"""Where each file of a dataset lies below the dataset's root: `to_path()`, mount and download agree."""

from collections.abc import Sequence
from urllib.parse import quote, urlsplit

from runyard.planning.data_patterns import fixed_part


def path_in_dataset(urls: Sequence[str], url: str) -> str:
    """Relative path of one address: its file name when it is the only source, else with scheme and host."""
    parts = urlsplit(url)
    segments = [_safe(segment) for segment in parts.path.split("/") if segment] or ["index"]
    if parts.query:
        segments[-1] += quote("?" + parts.query, safe="=&")
    if len(urls) == 1:
        return segments[-1]
    return "/".join([f"{parts.scheme}%3A", "%2F" + quote(parts.netloc.rpartition("@")[2], safe=""), *segments])


def stored_path(datastore: str, pattern: str, name: str, *, is_only_source: bool) -> str:
    """Relative path of a datastore's file: below the fixed part of the only source, else with the datastore's name."""
    if not is_only_source:
        return f"{datastore}/{name}"
    above = fixed_part(pattern)
    if name == above:
        return name.rpartition("/")[2]
    return name[len(above) + 1 :] if above else name


def shown(url: str) -> str:
    """The address for messages: without a login, and without the query, which may hold a signature."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _safe(segment: str) -> str:
    return quote(segment, safe="%!$&'()*+,;=:@~") if segment not in (".", "..") else quote(segment).replace(".", "%2E")
