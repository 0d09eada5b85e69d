"""Compilers, Open MPI and shared libraries of this machine that packages are built with."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.environments.interpreters import Interpreter

GIGABYTES_A_COMPILER = 1.5
ANSWER_SECONDS = 20
INSTALL_MPI = (
    "Install Open MPI on this machine, for example `apt install openmpi-bin libopenmpi-dev` or "
    "`dnf install openmpi openmpi-devel` with its bin folder on PATH; then submit again."
)
INSTALL_COMPILER = (
    "Install a C++ compiler on this machine, for example `apt install build-essential` or `dnf install gcc-c++ make`; "
    "then submit again."
)


def open_mpi_version(variables: Mapping[str, str], what: str) -> str:
    """Major and minor version of the Open MPI on the submitter's PATH. Raises EnvironmentFailed if there is none."""
    launcher = _find_program("mpirun", variables)
    if launcher is None:
        raise _lacking(f"{what} needs Open MPI, and there is no mpirun on PATH.", INSTALL_MPI)
    try:
        output = subprocess.run(
            [launcher, "--version"],
            env={"PATH": variables.get("PATH", os.defpath)},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS,
            stdin=subprocess.DEVNULL,
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _lacking(f"{what} needs Open MPI, and {launcher} fails: {error}.", INSTALL_MPI) from error
    found = re.search(r"Open MPI\) (\d+\.\d+)", output)
    if found is None:
        first_line = output.strip().partition("\n")[0] or "nothing"
        raise _lacking(f"{what} needs Open MPI, and {launcher} is another one: {first_line!r}.", INSTALL_MPI)
    return found.group(1)


def require_compilers(what: str, interpreter: Interpreter, variables: Mapping[str, str], *, mpi: bool) -> None:
    """Raise EnvironmentFailed, with what to install, if a compiler or header that `what` needs is missing."""
    if _find_program("g++", variables) is None:
        raise _lacking(f"{what} must be compiled, and there is no g++ on PATH.", INSTALL_COMPILER)
    if mpi and _find_program("mpicxx", variables) is None:
        raise _lacking(f"{what} must be compiled against MPI, and there is no mpicxx on PATH.", INSTALL_MPI)
    if not interpreter.has_headers:
        raise EnvironmentFailed(
            f"{what} must be compiled, and Python {interpreter} at {interpreter.path} has no header files (Python.h).",
            hint=f"Install them, for example `apt install python{interpreter.minor}-dev`; then submit again.",
            cause=FailureCause.HEADER_MISSING,
            said=f"Python.h is not beside {interpreter.path}",
        )


def _lacking(problem: str, hint: str) -> EnvironmentFailed:
    return EnvironmentFailed(problem, hint=hint, cause=FailureCause.COMPILER_MISSING, said=problem)


def parallel_compilers() -> int:
    """Number of compilers to run at once: one per core, limited by memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return max(1, min(len(os.sched_getaffinity(0)), int(memory / GIGABYTES_A_COMPILER)))


def _find_program(program: str, variables: Mapping[str, str]) -> str | None:
    return shutil.which(program, path=variables.get("PATH") or os.defpath)


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
        found = _find_library(library, variables)
        if found is None:
            problem = f"The library {library} is not on this machine."
            raise EnvironmentFailed(problem, hint=INSTALL_MPI, cause=FailureCause.HEADER_MISSING, said=problem)
        os.symlink(found, folder / old_name)
    return {"LD_LIBRARY_PATH": str(folder)}


def _find_library(library: str, variables: Mapping[str, str]) -> Path | None:
    for folder in _library_folders(variables):
        if (folder / library).exists():
            return folder / library
    return None


def _library_folders(variables: Mapping[str, str]) -> list[Path]:
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
