import os
from collections.abc import Mapping
from pathlib import Path

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import NEVER
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.index_settings import uv_variables
from runyard.environments.interpreters import (
    Interpreter,
    choose_interpreter,
    discover_interpreters,
    own_minor,
    uv_managed,
)
from runyard.environments.package_sources import PackageSources
from runyard.environments.programs import LogLine, run_program

MIRRORS = ("UV_PYTHON_INSTALL_MIRROR", "UV_PYTHON_DOWNLOADS_JSON_URL", "UV_PYTHON_CACHE_DIR")
# On a network that drops packets, fall back to an installed interpreter soon.
PATIENCE = {"UV_HTTP_TIMEOUT": "30", "UV_HTTP_CONNECT_TIMEOUT": "5", "UV_HTTP_RETRIES": "1"}


def obtain_interpreter(
    spec: EnvironmentSpec, cache: Path, sources: PackageSources, log: LogLine
) -> tuple[Interpreter, str]:
    """Choose or download the interpreter for a spec; returns it with a line for the build log.

    Takes an installed one of the right version, else lets uv download it if the workspace allows that, else takes the
    nearest installed one. Raises EnvironmentFailed if the spec needs an exact version that cannot be had.
    """
    found = discover_interpreters(cache, sources.variables)
    minors = _minors(spec)
    if not minors or {interpreter.minor for interpreter in found} & set(minors):
        return choose_interpreter(spec, found)
    reason = _why_no_downloads(sources)
    error_text = reason or _download(minors, cache.parent, sources, log)
    if error_text:
        log(f"Python {' or '.join(minors)} is not downloaded: {error_text}")
        return _chosen(spec, found, error_text)
    return _chosen(spec, discover_interpreters(cache, sources.variables), "")


def _minors(spec: EnvironmentSpec) -> list[str]:
    wanted = (spec.python or own_minor()).split(",")
    return [".".join(python.split(".")[:2]) for python in wanted if "." in python]


def _chosen(spec: EnvironmentSpec, found: list[Interpreter], error_text: str) -> tuple[Interpreter, str]:
    try:
        return choose_interpreter(spec, found)
    except EnvironmentFailed as failure:
        raise EnvironmentFailed(failure.problem, hint=failure.hint, **{**failure.facts, "said": error_text}) from None


def _why_no_downloads(sources: PackageSources) -> str:
    if sources.settings.offline:
        return "the workspace is offline."
    if sources.settings.python_downloads == NEVER:
        return "the workspace's setting python_downloads is 'never'."
    if sources.variables.get("UV_PYTHON_DOWNLOADS") in ("never", "manual"):
        return f"UV_PYTHON_DOWNLOADS is {sources.variables['UV_PYTHON_DOWNLOADS']!r}."
    return ""


def _download(minors: list[str], folder: Path, sources: PackageSources, log: LogLine) -> str:
    """Download the first version that uv has; returns '' or why it failed."""
    from uv import find_uv_bin

    folder.mkdir(parents=True, exist_ok=True)
    error_text = ""
    for minor in minors:
        log(f"Python {minor} is not on this machine; uv downloads it.")
        command = [os.fspath(find_uv_bin()), "python", "install", "--no-bin", f"cpython-{minor}"]
        try:
            result = run_program(command, log, env=_variables(sources), cwd=folder)
        except OSError as error:
            return f"uv could not be started: {error}."
        if result.exit_code == 0:
            return ""
        error_text = error_text or next((line.strip() for line in reversed(result.lines) if line.strip()), "uv failed.")
    return error_text


def _variables(sources: PackageSources) -> Mapping[str, str]:
    """Variables for uv, with the Python mirror of the submitter, else of this machine."""
    own = {name: value for name in MIRRORS if (value := sources.variables.get(name) or os.environ.get(name))}
    own["UV_PYTHON_INSTALL_DIR"] = str(uv_managed(sources.variables))
    return {**PATIENCE, **uv_variables(sources.in_effect()), **own, "UV_PYTHON_DOWNLOADS": "manual"}
