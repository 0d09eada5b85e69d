import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# Fastest first; all of them install the same packages.
NAMES = ("micromamba", "mamba", "conda")
INSTALLATIONS = ("miniforge3", "mambaforge", "miniconda3", "anaconda3", "micromamba", "miniforge", "miniconda")
VERSION_SECONDS = 20
CONDA_WAYS = (
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
