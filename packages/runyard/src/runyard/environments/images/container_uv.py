"""uv in build containers: the program, which runs in any image, and its cache."""

import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runyard.environments.containers.containers import Mount

# Mount points below /dev leave no folder in the committed layer: engines create /dev for each container.
TOOLS = "/dev/runyard"
LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib64/ld64.so.2")
LOADED = re.compile(r"^[^\S\n]*+(?:\S++ => )?(?P<path>/\S++) \(0x", re.M)
ASKED_SECONDS = 30


@dataclass(frozen=True)
class ContainerTool:
    """Command and mounts to start a program of this machine in a container."""

    command: tuple[str, ...]
    mounts: tuple[Mount, ...]


@cache
def uv_tool() -> ContainerTool:
    """uv with this machine's loader and libraries, so that it runs in images with another C library or none."""
    from uv import find_uv_bin

    program, inside = os.fspath(find_uv_bin()), f"{TOOLS}/uv"
    mounts = [Mount(os.path.realpath(program), inside, is_read_only=True)]
    loader = loader_of_this_machine()
    libraries = linked_libraries(Path(program))
    if loader is None or not libraries:
        return ContainerTool((inside,), tuple(mounts))
    mounts.append(Mount(os.path.realpath(loader), f"{TOOLS}/lib/loader", is_read_only=True))
    for library in libraries:
        mounts.append(Mount(str(library.resolve()), f"{TOOLS}/lib/{library.name}", is_read_only=True))
    return ContainerTool((f"{TOOLS}/lib/loader", "--library-path", f"{TOOLS}/lib", inside), tuple(mounts))


def loader_of_this_machine() -> str | None:
    return next((loader for loader in LOADERS if os.path.exists(loader)), None)


def linked_libraries(program: Path) -> list[Path]:
    """Shared libraries that the loader finds for a program or library; empty for a static one."""
    loader = loader_of_this_machine()
    if loader is None:
        return []
    try:
        listed = subprocess.run(
            [loader, "--list", str(program)],
            env={},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASKED_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = (Path(line["path"]) for line in LOADED.finditer(listed.stdout))
    return [path for path in found if not path.name.startswith("ld-linux")]


CACHE = f"{TOOLS}/cache"
OF_IMAGES = "runyard-images"
SHARED = ("archive-v*", "wheels-v*", "simple-v*", "flat-index-v*")


def cache_mount(variables: Mapping[str, str]) -> Mount:
    """Mount of the submitter's uv cache, so that nothing is downloaded twice."""
    cache = _folder(variables)
    cache.mkdir(parents=True, exist_ok=True)
    return Mount(str(cache), CACHE)


def image_cache(variables: Mapping[str, str], image_id: str) -> str:
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
