"""The caller of a request, read from its token and passed to every use case."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from runyard.core.records.runs import AttemptId, RunId

if TYPE_CHECKING:
    from runyard.core.policy import Action


class Role(StrEnum):
    OWNER = "owner"
    RUN = "run"
    """The script of a run."""
    NODE = "node"
    """The supervisor of one attempt of a run."""
    SERVICE = "service"
    """The service's own background loops. No token has this role."""


@dataclass(frozen=True)
class Principal:
    """A caller. A run or node acts for one attempt of one run, in the workspace of that run."""

    role: Role
    run_id: RunId | None = None
    attempt_id: AttemptId | None = None
    workspace: str | None = None
    """None for callers without a workspace, and for a node: its reach is found by its run."""
    scopes: "frozenset[Action] | None" = None
    """The only actions of its role that it may do; None for all. A scope never adds to the role."""

    @property
    def name(self) -> str:
        """Value for `created_by`: "owner", "run:ID" or "service". A node acts in the name of its run."""
        return f"run:{self.run_id}" if self.run_id is not None else self.role.value


OWNER = Principal(Role.OWNER)
SERVICE = Principal(Role.SERVICE)
