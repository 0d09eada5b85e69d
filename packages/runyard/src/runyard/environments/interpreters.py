import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from runyard.core.durable_files import replace_file
from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import EnvironmentSpec

EXECUTABLE = re.compile(r"python(3(\.\d+)?)?")
PROBE = (
    "import sys, os, json, sysconfig;"
    "print(json.dumps([list(sys.version_info[:3]), sys.implementation.name, sys.maxsize > 2**32,"
    "os.path.exists(os.path.join(sysconfig.get_paths()['include'], 'Python.h'))]))"
)
PROBE_SECONDS = 20
FIRST_MINOR_OF_UV = 8


@dataclass(frozen=True)
class Interpreter:
    """A CPython of this machine that environments can be built on."""

    path: str
    version: tuple[int, int, int]
    has_headers: bool = False
    """Python.h is installed, so packages can be compiled for it."""

    @property
    def minor(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


def choose_interpreter(spec: EnvironmentSpec, found: list[Interpreter]) -> tuple[Interpreter, str]:
    """Choose the interpreter for a spec; returns it with a line for the build log ('' if it is what was asked for).

    Raises EnvironmentFailed if the spec needs an exact version that is not there."""
    usable = sorted(found, key=lambda i: (i.has_headers, i.version), reverse=True)
    if spec.exact_python:
        for minor in spec.python.split(","):
            for interpreter in usable:
                if interpreter.minor == minor:
                    return interpreter, ""
        raise _missing(spec, usable)
    if not usable:
        raise _missing(spec, usable)
    return _nearest(spec.python or own_minor(), usable)


def discover_interpreters(cache: Path, variables: Mapping[str, str]) -> list[Interpreter]:
    """Find every CPython 3.6 or newer. Each executable is started once; `cache` keeps the result by path and mtime."""
    known = _read(cache)
    now: dict[str, dict[str, object]] = {}
    for path in dict.fromkeys(_executables(variables)):
        stat = os.stat(path)
        entry = known.get(path)
        if entry is None or entry["mtime"] != stat.st_mtime_ns:
            entry = {"mtime": stat.st_mtime_ns, "interpreter": _probe(path, variables)}
        now[path] = entry
    if now != known:
        with suppress(OSError):  # a full disk only costs another probe
            replace_file(cache, json.dumps(now).encode())
    return [_interpreter(entry["interpreter"]) for entry in now.values() if entry["interpreter"]]


def interpreter_at(path: str, variables: Mapping[str, str]) -> Interpreter | None:
    """Start the interpreter at `path` and describe it; None if it is no CPython 3.6 or newer that runs here."""
    entry = _probe(path, variables)
    return _interpreter(entry) if entry else None


def _nearest(requested: str, usable: list[Interpreter]) -> tuple[Interpreter, str]:
    wanted = tuple(int(part) for part in requested.split("."))
    same = [i for i in usable if i.version[: len(wanted[:2])] == wanted[:2]]
    if same:
        interpreter = next((i for i in same if i.version == wanted), same[0])
        note = (
            "" if interpreter.version[: len(wanted)] == wanted else f"Python {interpreter} stands in for {requested}."
        )
        return interpreter, note
    newer = [i for i in usable if i.version >= wanted]
    if newer:
        minor = min(i.version[:2] for i in newer)
        interpreter = next(i for i in newer if i.version[:2] == minor)
    else:
        interpreter = max(usable, key=lambda i: i.version)
    which = "the nearest newer one" if newer else "the newest one"
    return interpreter, f"Python {requested} is not on this machine; {interpreter}, {which}, is taken."


def _missing(spec: EnvironmentSpec, usable: list[Interpreter]) -> EnvironmentFailed:
    minors = (spec.python or own_minor()).split(",")
    what = next(iter([*(spec.choices[-1] if spec.choices else ()), *spec.requirements]), "This environment")
    here = ", ".join(sorted({i.minor for i in usable}, key=lambda m: int(m.split(".")[1]))) or "none"
    return EnvironmentFailed(
        f"{what} needs Python {' or '.join(minors)}, and this machine has {here}.",
        hint=f"Install one where it is found: {how_to_install(minors)}; then submit again.",
        cause=FailureCause.NO_PYTHON,
        said="",
        pythons=minors,
    )


def uv_has(python: str) -> bool:
    """Whether uv can install that version: it has builds of Python 3.8 and newer."""
    major, _, minor = python.partition(".")
    return (int(major), int(minor.partition(".")[0] or FIRST_MINOR_OF_UV)) >= (3, FIRST_MINOR_OF_UV)


def how_to_install(minors: Sequence[str]) -> str:
    """Commands that install one of these versions."""
    by_uv = next(filter(uv_has, reversed(minors)), "")
    commands = [f"pyenv install {minors[0]}", f"uv python install {by_uv}" if by_uv else ""]
    commands.append(f"conda create -n python{minors[0]} python={minors[0]}")
    *others, last = [f"`{command}`" for command in commands if command]
    return f"{', '.join(others)} or {last}"


def own_minor() -> str:
    """Minor version of this process's Python: the default where a spec names none."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _executables(variables: Mapping[str, str]) -> Iterator[str]:
    for folder in _folders(variables):
        try:
            names = sorted(os.listdir(folder), reverse=True)
        except OSError:
            continue
        for name in filter(EXECUTABLE.fullmatch, names):
            path = os.path.realpath(os.path.join(folder, name))
            if os.access(path, os.X_OK) and os.path.isfile(path):
                yield path


def _folders(variables: Mapping[str, str]) -> Iterator[Path]:
    home = Path(variables.get("HOME") or Path.home())
    for entry in variables.get("PATH", os.defpath).split(os.pathsep):
        # A pyenv shim starts whichever version is selected, or none.
        if os.path.isabs(entry) and Path(entry).name != "shims":
            yield Path(entry)
    yield Path(sys.base_prefix) / "bin"
    yield from map(Path, ("/usr/bin", "/usr/local/bin"))
    yield from Path("/opt").glob("*/bin")
    for pyenv in dict.fromkeys((Path(variables.get("PYENV_ROOT") or home / ".pyenv"), home / ".pyenv")):
        yield from (pyenv / "versions").glob("*/bin")
    yield from uv_managed(variables).glob("*/bin")
    for conda in dict.fromkeys(_condas(variables, home)):
        yield conda / "bin"
        yield from (conda / "envs").glob("*/bin")
    yield from Path("/opt").glob("*/envs/*/bin")


def _condas(variables: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Root folders of conda installations: those named by variables first."""
    if variables.get("MAMBA_ROOT_PREFIX"):
        yield Path(variables["MAMBA_ROOT_PREFIX"])
    if variables.get("CONDA_EXE"):
        yield Path(variables["CONDA_EXE"]).parent.parent
    yield from (home / name for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda"))


def uv_managed(variables: Mapping[str, str]) -> Path:
    """The folder of the interpreters that uv has downloaded."""
    home = Path(variables.get("HOME") or Path.home())
    data = variables.get("XDG_DATA_HOME") or str(home / ".local/share")
    return Path(variables.get("UV_PYTHON_INSTALL_DIR") or Path(data) / "uv/python")


def _probe(path: str, variables: Mapping[str, str]) -> dict[str, object] | None:
    kept = {name: variables[name] for name in ("PATH", "HOME", "LANG") if name in variables}
    try:
        answer = subprocess.run(
            [path, "-I", "-S", "-c", PROBE],
            env=kept,
            capture_output=True,
            timeout=PROBE_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        version, implementation, wide, headers = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if implementation != "cpython" or not wide or tuple(version) < (3, 6):
        return None
    return asdict(Interpreter(path, tuple(version), headers))


def _interpreter(entry: object) -> Interpreter:
    assert isinstance(entry, dict)
    return Interpreter(entry["path"], tuple(entry["version"]), entry["has_headers"])


def _read(cache: Path) -> dict[str, dict[str, object]]:
    try:
        known = json.loads(cache.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
