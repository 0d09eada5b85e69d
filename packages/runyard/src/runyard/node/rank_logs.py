from pathlib import Path

from runyard.model.plan import LaunchPlan
from runyard.node.attempt import AttemptFolder


def ranks_of(plan: LaunchPlan) -> list[tuple[int, str, str]]:
    """Rank, role and log of every rank on the plan's node."""
    own = [(spec.rank, spec.role, spec.log) for spec in plan.here.processes if spec.role != "launcher"]
    return own + [(rank, "worker", f"azureml-logs/{_name(rank)}") for rank in plan.here.ranks]


def log_of_rank(folder: AttemptFolder, rank: int) -> Path:
    """Log of a rank that a launcher started."""
    return folder.std / _name(rank)


def _name(rank: int) -> str:
    return f"70_driver_log_{rank}.txt"
