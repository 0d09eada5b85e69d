"""uv's cache in a build container."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from runyard.containers.containers import Mount
from runyard.environments.images.tools import TOOLS

CACHE = f"{TOOLS}/cache"
OF_IMAGES = "runyard-images"
SHARED = ("archive-v*", "wheels-v*", "simple-v*", "flat-index-v*")


def cache_mount(variables: Mapping[str, str]) -> Mount:
    """The submitter's own cache: what was downloaded once is not again."""
    cache = _folder(variables)
    cache.mkdir(parents=True, exist_ok=True)
    return Mount(str(cache), CACHE)


def cache_of(variables: Mapping[str, str], image_id: str) -> str:
    """The cache for builds in an image, as a container sees it. What uv downloads is shared with all; what it compiles
    fits the libraries of that image alone, and lies apart."""
    cache = _folder(variables)
    name = f"{OF_IMAGES}/{image_id.partition(':')[2]}"
    (cache / name).mkdir(parents=True, exist_ok=True)
    # Links, since uv moves files between these folders, which no two mounts allow.
    for shared in (found for pattern in SHARED for found in cache.glob(pattern)):
        with suppress(FileExistsError):
            os.symlink(f"../../{shared.name}", cache / name / shared.name)
    return f"{CACHE}/{name}"


def _folder(variables: Mapping[str, str]) -> Path:
    home = Path(variables.get("HOME") or Path.home())
    chosen = variables.get("UV_CACHE_DIR") or Path(variables.get("XDG_CACHE_HOME") or home / ".cache") / "uv"
    return Path(os.path.abspath(chosen)).resolve()
