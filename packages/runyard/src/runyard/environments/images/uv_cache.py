"""uv's cache in a build container."""

import mmap
import os
import re
from collections.abc import Mapping
from pathlib import Path

from runyard.containers.containers import Mount
from runyard.environments.images.passage import CACHE

BUILT_HERE = re.compile(rb"sdists-v\d{1,3}")


def cache_mounts(variables: Mapping[str, str], private: Path, program: str) -> tuple[Mount, ...]:
    """The submitter's own cache, so that what was downloaded once is not again. What is compiled in the container fits
    the libraries of its image alone, and is kept in `private` instead."""
    cache = _folder(variables)
    cache.mkdir(parents=True, exist_ok=True)
    mounts = [Mount(str(cache), CACHE)]
    for name in sorted({entry.name for entry in cache.glob("sdists-v*")} | _known_to(program)):
        (private / name).mkdir(parents=True, exist_ok=True)
        (cache / name).mkdir(exist_ok=True)
        mounts.append(Mount(str(private / name), f"{CACHE}/{name}"))
    return tuple(mounts)


def _folder(variables: Mapping[str, str]) -> Path:
    home = Path(variables.get("HOME") or Path.home())
    chosen = variables.get("UV_CACHE_DIR") or Path(variables.get("XDG_CACHE_HOME") or home / ".cache") / "uv"
    return Path(os.path.abspath(chosen)).resolve()


def _known_to(program: str) -> set[str]:
    """The folder that this uv keeps what it compiles in: its name has a version, which no command tells."""
    with open(program, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return {name.decode() for name in BUILT_HERE.findall(content)}
