"""Open MPI on a node: its programs, the files and variables that it needs, and the command of its daemon."""

import hashlib
import os
import resource
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from runyard.core.errors import EngineError, Json
from runyard.core.records.launch_plan import LaunchPlan
from runyard.node.task_folder import TaskFolder

PROGRAMS = Path(__file__).parent
"""Folder of our programs that a launcher runs."""
_SCRATCH = "OMPI_MCA_orte_tmpdir_base"
OPEN_FILES_OF_LAUNCHERS = 4096
"""Limit of open files for a launcher or daemon: in each process that it starts it closes every possible descriptor, one
by one. Ranks get their own limit back."""
_INSTALL = (
    "Install Open MPI there: apt-get install openmpi-bin (Debian, Ubuntu), dnf install openmpi (Fedora, RHEL), "
    "or add the conda package openmpi to the run's environment."
)
INSTALL_IN_IMAGE = "Install Open MPI in the image, as by a line RUN apt-get install -y openmpi-bin of its Dockerfile."


def fill_in_mpi_words(
    plan: LaunchPlan,
    folder: TaskFolder,
    roster: Sequence[Json],
    python: str,
    variables: Mapping[str, str],
    *,
    in_image: bool = False,
) -> dict[str, str]:
    """Values of {mpirun}, {host_file}, {rsh_agent} and {rank_starter}; writes their files to the task's folder.

    mpirun must be started in the task's working folder. Raises EngineError with what to install where it is missing;
    in an image that is found out only when it starts.
    """
    host_file = folder.scripts / "hosts"
    host_file.write_text(host_file_text(plan), encoding="utf-8")
    _write_launch_servers(plan, folder, roster)
    return {
        "{mpirun}": "mpirun" if in_image else _required("mpirun", plan, python, variables),
        "{host_file}": str(host_file),
        "{rsh_agent}": _write_rsh(folder, python if in_image else sys.executable),
        "{rank_starter}": str(PROGRAMS / "rank_starter.py"),
    }


def rank_variables(python: str) -> dict[str, str]:
    """Variables by which the launcher's command, the same on all nodes, finds this node's interpreter and our files."""
    return {"RUNYARD_RANK_PYTHON": python, "RUNYARD_RANK_STARTER": str(PROGRAMS / "rank_starter.py")}


def scratch_variables(folder: TaskFolder) -> dict[str, str]:
    """Variables that have Open MPI keep its files in the task's folder, which is deleted with the task."""
    return {_SCRATCH: str(folder.scripts / "mpi")}


def limit_open_files() -> None:
    """Lower the limit of open files, in a launcher or daemon before it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > OPEN_FILES_OF_LAUNCHERS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES_OF_LAUNCHERS, hard))


def open_files_of_ranks() -> int:
    """Limit of open files for a rank."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def host_file_text(plan: LaunchPlan) -> str:
    """Text of the host file: one line for each node that has ranks."""
    return "".join(f"{node.address} slots={len(node.ranks)}\n" for node in plan.nodes if node.ranks)


def require_open_mpi(plan: LaunchPlan, python: str, variables: Mapping[str, str]) -> None:
    """Raise EngineError, with what to install, where this node cannot start ranks."""
    if plan.here.ranks and len(plan.nodes) > 1:
        _required("orted", plan, python, variables)
    if plan.here.processes:
        _required("mpirun", plan, python, variables)


def orted_command(
    plan: LaunchPlan, words: Sequence[str], python: str, variables: Mapping[str, str], *, in_image: bool = False
) -> list[str]:
    """Command of this node's orted with the launcher's arguments, without what stands before orted.

    `words` are what mpirun would give to ssh. Raises OSError when they start no orted."""
    words = _split_like_shell(words)
    names = [os.path.basename(word) for word in words]
    if "orted" not in names:
        raise OSError(f"the launcher asks for {words[:1]}, not for orted")
    arguments = list(words[names.index("orted") + 1 :])
    for setting, value in (("plm_rsh_agent", "/proc/self/exe"), ("orte_tmpdir_base", variables.get(_SCRATCH))):
        # Values of node 0, which a daemon checks without need: replaced by ones that exist on this node.
        if value and setting in arguments[:-1]:
            arguments[arguments.index(setting) + 1] = value
    return ["orted" if in_image else _required("orted", plan, python, variables), *arguments]


def _split_like_shell(words: Sequence[str]) -> list[str]:
    try:
        return shlex.split(" ".join(words))
    except ValueError as e:
        raise OSError(f"the launcher asks for what no shell could read: {e}") from e


def find_open_mpi(program: str, python: str, variables: Mapping[str, str]) -> str | None:
    """Find a program of Open MPI: in the environment first, then on PATH."""
    beside = shutil.which(program, path=str(Path(python).parent))
    return beside or shutil.which(program, path=variables.get("PATH") or os.defpath)


def _required(program: str, plan: LaunchPlan, python: str, variables: Mapping[str, str]) -> str:
    found = find_open_mpi(program, python, variables)
    if found is None:
        node = plan.here
        named = f"{node.name} ({node.address})" if node.name else node.address
        raise EngineError(
            f"Node {named} has no {program} of Open MPI, neither in the run's environment nor on PATH.", hint=_INSTALL
        )
    return found


def _write_launch_servers(plan: LaunchPlan, folder: TaskFolder, roster: Sequence[Json]) -> None:
    # "door" and "doors" are the names in the wire format and on disk.
    servers = {node.address: facts.get("door") for node, facts in zip(plan.nodes, roster, strict=False)}
    folder.write_for_script("doors.json", {"secret": plan.secret, "doors": servers})


def _write_rsh(folder: TaskFolder, interpreter: str) -> str:
    """Write the rsh agent. Open MPI splits its path at blanks, so the path is relative to the working folder."""
    words = [interpreter, "-I", "-S", "-E", str(PROGRAMS / "rsh_agent.py"), str(folder.scripts / "doors.json")]
    program = folder.scripts / "runyard-rsh"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    return f"/proc/self/cwd/{os.path.relpath(program, folder.work)}"


_MEMORY = Path("/dev/shm")


def prepare_shared_memory(plan: LaunchPlan) -> dict[str, str]:
    """Make a folder of the attempt in /dev/shm, and return the variables that have Open MPI use it. Safe to repeat.

    Ranks of a node exchange data through files there, which Open MPI leaves behind when it is killed.
    """
    if not _MEMORY.is_dir():
        return {}
    folder = _folder_of(plan)
    folder.mkdir(mode=0o700, exist_ok=True)
    return {"OMPI_MCA_btl_vader_backing_directory": str(folder)}


def clear_shared_memory(plan: LaunchPlan) -> None:
    """Delete the folder, after the ranks of this task have ended. Ranks of other tasks keep their open files."""
    shutil.rmtree(_folder_of(plan), ignore_errors=True)


def _folder_of(plan: LaunchPlan) -> Path:
    """Folder of the attempt, the same on every node: mpirun passes its own value to all ranks."""
    name = hashlib.sha256(f"{plan.attempt_id}\0{plan.secret}\0{plan.token}".encode()).hexdigest()[:24]
    return _MEMORY / f"runyard-{name}"
