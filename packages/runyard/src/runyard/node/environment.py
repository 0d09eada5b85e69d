"""The environment step of a part's preparation."""

from typing import IO

from runyard.environments.uv import UvEnvironments
from runyard.model.plan import LaunchPlan
from runyard.node.attempt import AttemptFolder
from runyard.node.errand import Tell
from runyard.node.service_client import ServiceClient
from runyard.ports.environments import BuiltEnvironment

_BUILD_LOG = "20_image_build_log.txt"


def find_environment(folder: AttemptFolder, plan: LaunchPlan) -> BuiltEnvironment | None:
    """The run's environment where this node has it already; takes a moment only."""
    return _environments(folder, plan).find(plan.environment)


def ensure_environment(folder: AttemptFolder, plan: LaunchPlan, client: ServiceClient, tell: Tell) -> BuiltEnvironment:
    """Find or make the run's environment in this node's cache. Tells the step "environment" where it must be made,
    which goes line by line to the part's log. Raises EnvironmentFailed with words for the user."""
    found = find_environment(folder, plan)
    if found is not None:
        return found
    tell({"step": "environment"})
    with preparation_log(folder, plan) as log:
        return _environments(folder, plan).ensure(plan.environment, lambda line: print(line, file=log))


def preparation_log(folder: AttemptFolder, plan: LaunchPlan) -> IO[str]:
    """Each attempt writes logs of its own: a run's log grows at its end only."""
    file = folder.std / _BUILD_LOG if plan.kind == "prepare" else folder.node_log
    return file.open("a", encoding="utf-8", buffering=1)


def _environments(folder: AttemptFolder, plan: LaunchPlan) -> UvEnvironments:
    return UvEnvironments(folder.home / "environments", {**plan.env, "RUNYARD_ATTEMPT": plan.attempt_id})
