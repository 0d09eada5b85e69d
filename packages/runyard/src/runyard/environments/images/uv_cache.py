import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from runyard.containers.creating import Mount
from runyard.environments.images.tools import TOOLS

CACHE = f"{TOOLS}/cache"
OF_IMAGES = "runyard-images"
SHARED = ("archive-v*", "wheels-v*", "simple-v*", "flat-index-v*")


def cache_mount(variables: Mapping[str, str]) -> Mount:
    """Mount of the submitter's uv cache, so that nothing is downloaded twice."""
    cache = _folder(variables)
    cache.mkdir(parents=True, exist_ok=True)
    return Mount(str(cache), CACHE)


def cache_of(variables: Mapping[str, str], image_id: str) -> str:
    """Path in the container of the uv cache for builds on an image. Downloads are shared with all images; compiled
    wheels are kept apart, since they fit only the libraries of that image."""
    cache = _folder(variables)
    name = f"{OF_IMAGES}/{image_id.partition(':')[2]}"
    (cache / name).mkdir(parents=True, exist_ok=True)
    # Symbolic links, not mounts: uv moves files between these folders.
    for shared in (found for pattern in SHARED for found in cache.glob(pattern)):
        with suppress(FileExistsError):
            os.symlink(f"../../{shared.name}", cache / name / shared.name)
    return f"{CACHE}/{name}"


def _folder(variables: Mapping[str, str]) -> Path:
    home = Path(variables.get("HOME") or Path.home())
    chosen = variables.get("UV_CACHE_DIR") or Path(variables.get("XDG_CACHE_HOME") or home / ".cache") / "uv"
    return Path(os.path.abspath(chosen)).resolve()
