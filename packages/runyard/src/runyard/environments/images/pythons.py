"""Interpreters of an image, and the choice of one for an environment."""

import json
import os
from pathlib import Path
from typing import Any

from runyard.containers.creating import ContainerSpec, Mount
from runyard.containers.engine import Engine
from runyard.containers.records import ImageFacts
from runyard.environments.durable import write_beside
from runyard.environments.images.naming import USUAL_PATH
from runyard.environments.images.tools import TOOLS, uv_tool
from runyard.environments.interpreters import Interpreter
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause

LIST = ("python", "list", "--only-installed", "--output-format", "json", "--no-config", "--no-cache", "--offline")
# UV_LIBC is set since uv need not detect the C library for interpreters that are installed.
VARIABLES = {"UV_PYTHON_PREFERENCE": "only-system", "UV_LIBC": "gnu", "NO_COLOR": "1", "TMPDIR": f"{TOOLS}/tmp"}
OFTEN = ("/opt/conda/bin", "/opt/miniconda/bin", "/usr/local/bin", "/usr/bin")
OLDEST = (3, 6)


def pythons_of(engine: Engine, image: ImageFacts, notes: Path, scratch: Path, container: str) -> list[Interpreter]:
    """List the CPythons on the image's PATH, then in usual folders. Runs uv in a container once per image; `notes`
    keeps the result."""
    file = notes / "pythons.json"
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        found = _run_uv(engine, image, scratch, container)
        write_beside(file, json.dumps(found).encode())
    return [Interpreter(path, (major, minor, patch)) for path, (major, minor, patch) in found]


def _run_uv(engine: Engine, image: ImageFacts, scratch: Path, container: str) -> list[tuple[str, list[int]]]:
    uv, output = uv_tool(), list[str]()
    path = os.pathsep.join((image.variables.get("PATH") or USUAL_PATH, *OFTEN))
    temporary = scratch / "looking"
    temporary.mkdir(exist_ok=True)
    spec = ContainerSpec(
        image=image.id,
        command=(*uv.command, *LIST),
        variables={**VARIABLES, "PATH": path},
        mounts=(*uv.mounts, Mount(str(temporary), f"{TOOLS}/tmp")),
        working_folder="/",
        user="0:0",
        name=container,
    )
    ended = engine.containers.run(spec, output.append).exit
    listed = next((line for line in output if line.startswith("[")), "")
    if ended.status or not listed:
        raise EnvironmentFailed(
            f"Nothing can be run in image {image.names[0] if image.names else image.id!r}.",
            hint="Choose an image for this machine's processor and operating system.",
            cause=Cause.ARCHITECTURE if "exec format" in ended.error else Cause.ENGINE_FAILED,
            said=ended.error or "\n".join(output[-5:]),
        )
    return _suited(json.loads(listed), path.split(os.pathsep))


def _suited(listed: list[dict[str, Any]], folders: list[str]) -> list[tuple[str, list[int]]]:
    """Sort by position on PATH, as a user of the image would find them; uv sorts by version."""
    found: dict[str, list[int]] = {}
    for entry in listed:
        parts = entry["version_parts"]
        version = [int(parts["major"]), int(parts["minor"]), int(parts["patch"])]
        if entry["implementation"] == "cpython" and entry["variant"] == "default" and tuple(version[:2]) >= OLDEST:
            found[entry["path"]] = version

    def position(path: str) -> tuple[int, bool]:
        folder = os.path.dirname(path)
        return (folders.index(folder) if folder in folders else len(folders), os.path.basename(path) != "python")

    return sorted(found.items(), key=lambda item: position(item[0]))
