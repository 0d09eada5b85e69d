import hashlib
import shutil
from pathlib import Path

from runyard.model.plan import LaunchPlan

_MEMORY = Path("/dev/shm")


def hold_shared_memory(plan: LaunchPlan) -> dict[str, str]:
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
