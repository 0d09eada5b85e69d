"""Who is calling: told from the token, handed to every use case."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from runyard.model.runs import AttemptId, RunId

if TYPE_CHECKING:
    from runyard.core.policy import Action


class Role(StrEnum):
    OWNER = "owner"
    RUN = "run"
    """The script of a run."""
    NODE = "node"
    """The supervisor of one attempt of a run."""
    SERVICE = "service"
    """The service's own loops. No token has this role."""


@dataclass(frozen=True)
class Principal:
    """A caller. A run's and a node's speak for one attempt of one run, in the workspace of that run."""

    role: Role
    run_id: RunId | None = None
    attempt_id: AttemptId | None = None
    workspace: str | None = None
    """None for those who are in no workspace, and for a node: what it reaches is found by its run."""
    scopes: "frozenset[Action] | None" = None
    """The only actions of its role that it may do; None for all of them. No scope adds to what the role has."""

    @property
    def name(self) -> str:
        """As `created_by` holds it: "owner", "run:ID" or "service". What a node does, it does for its run."""
        return f"run:{self.run_id}" if self.run_id is not None else self.role.value


OWNER = Principal(Role.OWNER)
SERVICE = Principal(Role.SERVICE)
