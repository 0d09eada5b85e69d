import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# The quickest first; each of them solves and installs the same packages.
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
    """One of NAMES, which decides how it is spoken to."""
    path: str

    def version(self, variables: Mapping[str, str] = os.environ) -> str:
        """As the program tells it, which starts it; '' where it does not."""
        try:
            told = subprocess.run(
                [self.path, "--version"],
                env=dict(variables),
                capture_output=True,
                timeout=VERSION_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        first = told.stdout.decode("utf-8", "replace").strip().partition("\n")[0]
        return first.removeprefix(f"{self.name} ") if told.returncode == 0 else ""

    def __str__(self) -> str:
        return f"{self.name} at {self.path}"


def find_conda(variables: Mapping[str, str] = os.environ) -> CondaTool | None:
    """The best of those that are here, from the disk alone; `variables` has the PATH and HOME to look in, and what the
    tools set in the shells of their users: $MAMBA_EXE, $CONDA_EXE and $MAMBA_ROOT_PREFIX."""
    folders = list(dict.fromkeys(_folders(variables)))
    for name in NAMES:
        for folder in folders:
            path = folder / name
            if path.is_file() and os.access(path, os.X_OK):
                return CondaTool(name, str(path))
    return None


def _folders(variables: Mapping[str, str]) -> Iterator[Path]:
    # Often the program is no more on PATH than this: the shell has a function of its name.
    yield from (Path(given).parent for given in map(variables.get, ("MAMBA_EXE", "CONDA_EXE")) if given)
    for entry in variables.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isabs(entry) and Path(entry).name != "shims":
            yield Path(entry)
    home = Path(variables.get("HOME") or Path.home())
    yield home / ".local/bin"
    root = variables.get("MAMBA_ROOT_PREFIX")
    chosen = [Path(root)] if root else []
    for place in [*chosen, *(home / name for name in INSTALLATIONS), *sorted(Path("/opt").glob("*"))]:
        yield place / "bin"
        yield place / "condabin"
