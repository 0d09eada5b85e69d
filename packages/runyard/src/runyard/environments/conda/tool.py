import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import NEVER, FailureCause
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.conda.explicit_lock import is_explicit
from runyard.environments.package_sources import PackageSources
from runyard.environments.planning.conda_packages import PROGRAMS_INSTEAD, is_not_on_pypi, parse_conda_line
from runyard.environments.planning.packages import mapping_note
from runyard.environments.programs import LogLine

# Fastest first; all of them install the same packages.
NAMES = ("micromamba", "mamba", "conda")
INSTALLATIONS = ("miniforge3", "mambaforge", "miniconda3", "anaconda3", "micromamba", "miniforge", "miniconda")
VERSION_SECONDS = 20
HOW_TO_GET_CONDA = (
    "Install micromamba, mamba or conda where it is found (as $MAMBA_EXE or $CONDA_EXE of the shell that submits, on "
    "PATH, in ~/miniforge3, ~/miniconda3, ~/micromamba or below /opt), then submit again."
)


@dataclass(frozen=True)
class CondaTool:
    """A program of this machine that solves and installs conda packages."""

    name: str
    """One of NAMES; decides the options it is called with."""
    path: str

    def version(self, variables: Mapping[str, str] = os.environ) -> str:
        """Start the program with --version; '' if that fails."""
        try:
            completed = subprocess.run(
                [self.path, "--version"],
                env=dict(variables),
                capture_output=True,
                timeout=VERSION_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        first = completed.stdout.decode("utf-8", "replace").strip().partition("\n")[0]
        return first.removeprefix(f"{self.name} ") if completed.returncode == 0 else ""

    def __str__(self) -> str:
        return f"{self.name} at {self.path}"


def find_conda(variables: Mapping[str, str] = os.environ) -> CondaTool | None:
    """Find the best installed tool without starting one: by PATH, HOME, MAMBA_EXE, CONDA_EXE and MAMBA_ROOT_PREFIX of
    `variables`."""
    folders = list(dict.fromkeys(_folders(variables)))
    for name in NAMES:
        for folder in folders:
            path = folder / name
            if path.is_file() and os.access(path, os.X_OK):
                return CondaTool(name, str(path))
    return None


def _folders(variables: Mapping[str, str]) -> Iterator[Path]:
    # The program is often not on PATH: `conda init` defines a shell function instead.
    yield from (Path(given).parent for given in map(variables.get, ("MAMBA_EXE", "CONDA_EXE")) if given)
    for entry in variables.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isabs(entry) and Path(entry).name != "shims":
            yield Path(entry)
    home = Path(variables.get("HOME") or Path.home())
    yield home / ".local/bin"
    root = variables.get("MAMBA_ROOT_PREFIX")
    chosen = [Path(root)] if root else []
    for installation in [*chosen, *(home / name for name in INSTALLATIONS), *sorted(Path("/opt").glob("*"))]:
        yield installation / "bin"
        yield installation / "condabin"


def choose_conda(
    spec: EnvironmentSpec, sources: PackageSources, log: LogLine, given_lock: str = ""
) -> CondaTool | None:
    """Choose the conda tool for a spec; None if uv builds it, after logging what replaces each conda package.

    A lock decides. Raises EnvironmentFailed, before anything is downloaded, if conda is needed and not installed.
    """
    lock = spec.locked or given_lock
    if spec.conda is None or (lock and not is_explicit(lock)):
        return None
    tool = find_conda(sources.variables) if sources.settings.conda != NEVER else None
    if tool:
        log(f"The conda packages are solved by {tool}.")
        return tool
    if lock:
        raise EnvironmentFailed(
            "The environment is to be made again as conda made it, and no conda is here.",
            hint=_how_to_get(sources),
            cause=FailureCause.CONDA_FAILED,
            said="",
        )
    require_pypi_packages(spec, log, sources.variables, hint=_how_to_get(sources))
    return None


def require_pypi_packages(
    spec: EnvironmentSpec,
    log: LogLine,
    variables: Mapping[str, str] | None = None,
    *,
    why: str = "no conda is here to install it",
    hint: str = HOW_TO_GET_CONDA,
) -> None:
    """Log which PyPI package replaces each conda package. Raises EnvironmentFailed for packages that PyPI lacks.

    `why` says why conda does not install them. A package that is only a program, such as ffmpeg, may be replaced by
    one on the PATH of `variables`.
    """
    missing = []
    for line in spec.conda.packages if spec.conda else ():
        package = parse_conda_line(line)
        program = PROGRAMS_INSTEAD.get(package.name, "")
        path = (variables or {}).get("PATH", "")
        here = shutil.which(program, path=path) if program and path else None
        if here:
            log(f"conda package '{line}' has no twin on the Python package index; {here} of this machine does.")
        else:
            log(mapping_note(package))
            missing += [line] if is_not_on_pypi(package.name) else []
    if missing:
        raise EnvironmentFailed(
            f"The Python package index has no twin of {', '.join(map(repr, missing))}, and {why}.",
            hint=f"{hint} Or take {'it' if len(missing) == 1 else 'them'} out of the conda dependencies.",
            cause=FailureCause.NO_PYPI_TWIN,
            said="",
            packages=missing,
        )


def _how_to_get(sources: PackageSources) -> str:
    if sources.settings.conda == NEVER and find_conda(sources.variables):
        return "The workspace's setting conda is 'never': set it to 'auto'."
    return HOW_TO_GET_CONDA
