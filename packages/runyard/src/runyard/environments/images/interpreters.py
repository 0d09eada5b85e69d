"""Interpreters of an image, and the choice of one for an environment."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runyard.core.durable_files import replace_file
from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.containers.containers import ContainerSpec, Mount
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.containers.records import ImageFacts
from runyard.environments.images.container_uv import TOOLS, uv_tool
from runyard.environments.images.names import USUAL_PATH
from runyard.environments.interpreters import Interpreter, choose_interpreter

LIST = ("python", "list", "--only-installed", "--output-format", "json", "--no-config", "--no-cache", "--offline")
# UV_LIBC is set since uv need not detect the C library for interpreters that are installed.
VARIABLES = {"UV_PYTHON_PREFERENCE": "only-system", "UV_LIBC": "gnu", "NO_COLOR": "1", "TMPDIR": f"{TOOLS}/tmp"}
OFTEN = ("/opt/conda/bin", "/opt/miniconda/bin", "/usr/local/bin", "/usr/bin")
OLDEST = (3, 6)


def image_interpreters(
    engine: ContainerEngine, image: ImageFacts, notes: Path, scratch: Path, container: str
) -> list[Interpreter]:
    """List the CPythons on the image's PATH, then in usual folders. Runs uv in a container once per image; `notes`
    keeps the result."""
    file = notes / "pythons.json"
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        found = _run_uv(engine, image, scratch, container)
        replace_file(file, json.dumps(found).encode())
    return [Interpreter(path, (major, minor, patch)) for path, (major, minor, patch) in found]


def _run_uv(engine: ContainerEngine, image: ImageFacts, scratch: Path, container: str) -> list[tuple[str, list[int]]]:
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
            cause=FailureCause.ARCHITECTURE if "exec format" in ended.error else FailureCause.ENGINE_FAILED,
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


STANDALONE = "/uv/python/"


def choose_in_image(spec: EnvironmentSpec, found: Sequence[Interpreter]) -> tuple[Interpreter, str] | None:
    """Choose an interpreter of the image for the spec; returns it with a line for the log, or None if none fits."""
    fitting = [interpreter for interpreter in found if _fits(spec, interpreter)]
    if not fitting:
        return None
    return choose_interpreter(spec, fitting) if spec.python else (fitting[0], "")


def choose_on_machine(
    spec: EnvironmentSpec, chosen: Interpreter, in_image: Sequence[Interpreter], here: Sequence[Interpreter]
) -> tuple[list[Interpreter], Interpreter | None, str]:
    """Choose an interpreter of this machine to copy into the image.

    `chosen` is the best of this machine. Returns candidates, best first; or no candidates and an interpreter of the
    image, if neither has the right version and that one is nearer.
    """
    if not _fits(spec, chosen) and in_image:
        nearest, note = choose_interpreter(spec, [*in_image, chosen])
        if nearest in in_image:
            return [], nearest, note
    same_minor = [interpreter for interpreter in here if interpreter.minor == chosen.minor]
    # Standalone builds downloaded by uv run on nearly any Linux.
    return (
        sorted({chosen, *same_minor}, key=lambda one: (STANDALONE not in one.path, one != chosen, one.path)),
        None,
        "",
    )


def _fits(spec: EnvironmentSpec, interpreter: Interpreter) -> bool:
    if not spec.python:
        return True
    wanted = [".".join(version.split(".")[:2]) for version in spec.python.split(",")]
    return any(interpreter.minor == version or interpreter.minor.partition(".")[0] == version for version in wanted)
