"""Where each file of a dataset lies below the dataset's root: `to_path()`, mount and download agree."""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from urllib.parse import quote, urlsplit

from runyard.planning.data_patterns import fixed_part

LONGEST_NAME = 240
"""Of 255 bytes that a disk takes: some are left to tell files apart."""
_LONGEST_SUFFIX = 20


def paths_in_dataset(urls: Sequence[str]) -> dict[str, str]:
    """Relative path of each address: its file name when it is the only one, else with scheme and host.

    A query is left out: it may be long, and hold a signature, which is a secret. Addresses that differ by it alone are
    told apart by a digest of it.
    """
    paths = {url: _path_of(url, is_only=len(set(urls)) == 1) for url in urls}
    times = Counter(paths.values())
    return {url: path if times[path] == 1 else _marked(path, urlsplit(url).query) for url, path in paths.items()}


def stored_path(datastore: str, pattern: str, name: str, *, is_only_source: bool) -> str:
    """Relative path of a datastore's file: below the fixed part of the only source, else with the datastore's name."""
    if not is_only_source:
        return f"{datastore}/{name}"
    above = fixed_part(pattern)
    if name == above:
        return name.rpartition("/")[2]
    return name[len(above) + 1 :] if above else name


def _path_of(url: str, *, is_only: bool) -> str:
    parts = urlsplit(url)
    segments = [_safe(segment) for segment in parts.path.split("/") if segment] or ["index"]
    if is_only:
        return segments[-1]
    return "/".join([f"{parts.scheme}%3A", "%2F" + quote(parts.netloc.rpartition("@")[2], safe=""), *segments])


def _safe(segment: str) -> str:
    """As the name of a file: one that no disk takes is cut, and marked by what it was."""
    if segment in (".", ".."):
        return segment.replace(".", "%2E")
    name = quote(segment, safe="%!$&'()*+,;=:@~")
    return name if len(name) <= LONGEST_NAME else _marked(name, name)


def _marked(path: str, mark: str) -> str:
    """With a digest before its suffix, so that scripts still know the kind of the file."""
    above, slash, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    if not stem or len(suffix) > _LONGEST_SUFFIX:
        stem, dot, suffix = name, "", ""
    digest = blake2b(mark.encode(), digest_size=4).hexdigest()
    return f"{above}{slash}{stem[: LONGEST_NAME - len(suffix) - 10]}-{digest}{dot}{suffix}"
