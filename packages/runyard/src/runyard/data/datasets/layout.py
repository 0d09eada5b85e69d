"""Path of each file below the root of its dataset: the same for `to_path()`, mount and download."""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from urllib.parse import quote, urlsplit

from runyard.core.path_patterns import fixed_part

LONGEST_NAME = 240
"""File systems take 255 bytes; the rest is for a digest that makes names unique."""
_LONGEST_SUFFIX = 20


def paths_in_dataset(urls: Sequence[str]) -> dict[str, str]:
    """Relative path of each URL: the file name for a single URL, else with scheme and host.

    The query is left out: it may be long, and hold a signature, which is a secret. URLs that differ only by the query
    get a digest of it in the name.
    """
    paths = {url: _path_of(url, is_only=len(set(urls)) == 1) for url in urls}
    times = Counter(paths.values())
    return {url: path if times[path] == 1 else _marked(path, urlsplit(url).query) for url, path in paths.items()}


def stored_path(datastore: str, pattern: str, name: str, *, is_only_source: bool) -> str:
    """Relative path of a file on a datastore: below the fixed part of a single source, else below its datastore."""
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
    """Valid file name for a URL segment. A name that is too long is cut and gets a digest."""
    if segment in (".", ".."):
        return segment.replace(".", "%2E")
    name = quote(segment, safe="%!$&'()*+,;=:@~")
    return name if len(name) <= LONGEST_NAME else _marked(name, name)


def _marked(path: str, mark: str) -> str:
    """Path with a digest before its suffix, so that scripts still see the type of the file."""
    above, slash, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    if not stem or len(suffix) > _LONGEST_SUFFIX:
        stem, dot, suffix = name, "", ""
    digest = blake2b(mark.encode(), digest_size=4).hexdigest()
    return f"{above}{slash}{stem[: LONGEST_NAME - len(suffix) - 10]}-{digest}{dot}{suffix}"
