"""Interpreters that are not on the machine: uv fetches them, where the workspace and the network allow it."""

import os
from collections.abc import Mapping
from pathlib import Path

from runyard.environments.indexes import uv_variables
from runyard.environments.interpreters import Interpreter, choose, discover, own_minor, uv_managed
from runyard.environments.programs import Say, run_saying
from runyard.environments.sources import Sources
from runyard.errors import EnvironmentFailed
from runyard.model.package_settings import NEVER
from runyard.model.plan import EnvironmentSpec

MIRRORS = ("UV_PYTHON_INSTALL_MIRROR", "UV_PYTHON_DOWNLOADS_JSON_URL", "UV_PYTHON_CACHE_DIR")
# Where the network swallows what is sent to it, a stand-in of the machine's own must not be long in coming.
PATIENCE = {"UV_HTTP_TIMEOUT": "30", "UV_HTTP_CONNECT_TIMEOUT": "5", "UV_HTTP_RETRIES": "1"}


def obtain(spec: EnvironmentSpec, cache: Path, sources: Sources, say: Say) -> tuple[Interpreter, str]:
    """The interpreter for a spec and a line for the build log: of this machine, else downloaded, else the nearest here.

    EnvironmentFailed where a framework needs a Python that is neither here nor to be had."""
    found = discover(cache, sources.variables)
    minors = _minors(spec)
    if not minors or {interpreter.minor for interpreter in found} & set(minors):
        return choose(spec, found)
    why_not = _why_no_downloads(sources)
    said = why_not or _download(minors, cache.parent, sources, say)
    if said:
        say(f"Python {' or '.join(minors)} is not downloaded: {said}")
        return _chosen(spec, found, said)
    return _chosen(spec, discover(cache, sources.variables), "")


def _minors(spec: EnvironmentSpec) -> list[str]:
    wished = (spec.python or own_minor()).split(",")
    return [".".join(python.split(".")[:2]) for python in wished if "." in python]


def _chosen(spec: EnvironmentSpec, found: list[Interpreter], said: str) -> tuple[Interpreter, str]:
    try:
        return choose(spec, found)
    except EnvironmentFailed as failure:
        raise EnvironmentFailed(failure.problem, hint=failure.hint, **{**failure.facts, "said": said}) from None


def _why_no_downloads(sources: Sources) -> str:
    if sources.settings.offline:
        return "the workspace is offline."
    if sources.settings.python_downloads == NEVER:
        return "the workspace's setting python_downloads is 'never'."
    if sources.variables.get("UV_PYTHON_DOWNLOADS") in ("never", "manual"):
        return f"UV_PYTHON_DOWNLOADS is {sources.variables['UV_PYTHON_DOWNLOADS']!r}."
    return ""


def _download(minors: list[str], folder: Path, sources: Sources, say: Say) -> str:
    """'' once uv has one of them, else its words."""
    from uv import find_uv_bin

    folder.mkdir(parents=True, exist_ok=True)
    said = ""
    for minor in minors:
        say(f"Python {minor} is not on this machine; uv downloads it.")
        command = [os.fspath(find_uv_bin()), "python", "install", "--no-bin", f"cpython-{minor}"]
        try:
            spoken = run_saying(command, say, env=_variables(sources), cwd=folder)
        except OSError as error:
            return f"uv could not be started: {error}."
        if spoken.exit_code == 0:
            return ""
        said = said or next((line.strip() for line in reversed(spoken.words) if line.strip()), "uv failed.")
    return said


def _variables(sources: Sources) -> Mapping[str, str]:
    """uv's, with the mirror of the submitter, else of this machine."""
    told = {name: value for name in MIRRORS if (value := sources.variables.get(name) or os.environ.get(name))}
    told["UV_PYTHON_INSTALL_DIR"] = str(uv_managed(sources.variables))
    return {**PATIENCE, **uv_variables(sources.in_effect()), **told, "UV_PYTHON_DOWNLOADS": "manual"}
