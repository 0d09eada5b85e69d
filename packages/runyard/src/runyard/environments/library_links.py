import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from runyard.environments.toolchain import INSTALL_MPI
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause

FOLDER = "lib/old-names"
ASKED_SECONDS = 20


def link_libraries(environment: Path, links: Sequence[Sequence[str]], variables: Mapping[str, str]) -> dict[str, str]:
    """Link shared libraries of this machine into the environment under the names that old packages look for.

    Returns the path variables that its programs need in front. Raises EnvironmentFailed for a missing library.
    """
    if not links:
        return {}
    folder = environment / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for old_name, library in links:
        found = _find(library, variables)
        if found is None:
            problem = f"The library {library} is not on this machine."
            raise EnvironmentFailed(problem, hint=INSTALL_MPI, cause=Cause.HEADER_MISSING, said=problem)
        os.symlink(found, folder / old_name)
    return {"LD_LIBRARY_PATH": str(folder)}


def _find(library: str, variables: Mapping[str, str]) -> Path | None:
    for folder in _folders(variables):
        if (folder / library).exists():
            return folder / library
    return None


def _folders(variables: Mapping[str, str]) -> list[Path]:
    """LD_LIBRARY_PATH, then lib folders next to those of PATH, then the loader's cache."""
    own = [Path(entry) for entry in variables.get("LD_LIBRARY_PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    beside = [
        Path(entry).parent / lib
        for entry in variables.get("PATH", os.defpath).split(os.pathsep)
        if os.path.isabs(entry)
        for lib in ("lib", "lib64")
    ]
    return [*own, *beside, *_known_to_loader()]


def _known_to_loader() -> list[Path]:
    for program in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        try:
            listed = subprocess.run(
                [program, "-p"], capture_output=True, text=True, timeout=ASKED_SECONDS, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        paths = (line.partition("=> ")[2].strip() for line in listed.stdout.splitlines())
        return list(dict.fromkeys(Path(path).parent for path in paths if path))
    return []
