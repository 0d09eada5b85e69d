"""Our uv in any image, whatever C library that has or lacks."""

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runyard.containers.containers import Mount

# What is mounted below /dev, which an engine makes afresh for each container, leaves no folder behind in a layer.
TOOLS = "/dev/runyard"
LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib64/ld64.so.2")
LOADED = re.compile(r"^[^\S\n]*+(?:\S++ => )?(?P<path>/\S++) \(0x", re.M)
ASKED_SECONDS = 30


@dataclass(frozen=True)
class Tool:
    """A program of this machine as it is started in a container."""

    command: tuple[str, ...]
    mounts: tuple[Mount, ...]


@cache
def uv_tool() -> Tool:
    """uv with the loader and the libraries that it is known to run with."""
    from uv import find_uv_bin

    program, inside = os.fspath(find_uv_bin()), f"{TOOLS}/uv"
    mounts = [Mount(os.path.realpath(program), inside, is_read_only=True)]
    loader = loader_of_this_machine()
    libraries = linked_libraries(Path(program))
    if loader is None or not libraries:
        return Tool((inside,), tuple(mounts))
    mounts.append(Mount(os.path.realpath(loader), f"{TOOLS}/lib/loader", is_read_only=True))
    for library in libraries:
        mounts.append(Mount(str(library.resolve()), f"{TOOLS}/lib/{library.name}", is_read_only=True))
    return Tool((f"{TOOLS}/lib/loader", "--library-path", f"{TOOLS}/lib", inside), tuple(mounts))


def loader_of_this_machine() -> str | None:
    return next((loader for loader in LOADERS if os.path.exists(loader)), None)


def linked_libraries(program: Path) -> list[Path]:
    """The shared libraries that the loader finds for a program or library; none for one that stands by itself."""
    loader = loader_of_this_machine()
    if loader is None:
        return []
    try:
        told = subprocess.run(
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
    found = (Path(line["path"]) for line in LOADED.finditer(told.stdout))
    return [path for path in found if not path.name.startswith("ld-linux")]
