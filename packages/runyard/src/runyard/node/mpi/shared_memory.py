"""Ranks of one node speak through files in shared memory, which Open MPI leaves behind when it is killed."""

import hashlib
import shutil
from pathlib import Path

from runyard.model.plan import LaunchPlan

_MEMORY = Path("/dev/shm")


def hold_shared_memory(plan: LaunchPlan) -> dict[str, str]:
    """Variables that have Open MPI keep those files in a folder of the attempt, made here. Safe to repeat."""
    if not _MEMORY.is_dir():
        return {}
    folder = _folder_of(plan)
    folder.mkdir(mode=0o700, exist_ok=True)
    return {"OMPI_MCA_btl_vader_backing_directory": str(folder)}


def clear_shared_memory(plan: LaunchPlan) -> None:
    """For a part whose ranks have ended, however they did. Ranks of other parts keep what they have open."""
    shutil.rmtree(_folder_of(plan), ignore_errors=True)


def _folder_of(plan: LaunchPlan) -> Path:
    """The same on every node: mpirun hands its own value to all ranks."""
    name = hashlib.sha256(f"{plan.attempt_id}\0{plan.secret}\0{plan.token}".encode()).hexdigest()[:24]
    return _MEMORY / f"runyard-{name}"
