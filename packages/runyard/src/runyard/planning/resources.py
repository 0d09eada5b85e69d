from dataclasses import dataclass

from runyard.model.files import FileEntry
from runyard.model.plan import DataItem, EnvironmentSpec
from runyard.model.runs import AttemptId
from runyard.planning.gpus import GpuShare
from runyard.planning.variables import Place


@dataclass(frozen=True)
class Resources:
    """Everything resolved or allocated for one attempt of a run, that its plan needs."""

    attempt_id: AttemptId
    context: Place
    node_token: str
    environment: EnvironmentSpec
    addresses: tuple[str, ...] = ("127.0.0.1",)
    names: tuple[str, ...] = ()
    """Names of the nodes, in the order of `addresses`; empty if they have none."""
    gpus: GpuShare = GpuShare(((),))  # noqa: RUF009  frozen
    code: tuple[FileEntry, ...] = ()
    data: tuple[DataItem, ...] = ()
    secret: str = ""
    """Shared by the nodes of an MPI run, to authenticate one another."""
    shares_files: bool = True
    restores_outputs: bool = False

    def name_of(self, node: int) -> str:
        return self.names[node] if self.names else f"node-{node}"

    def gpus_of(self, node: int) -> tuple[str, ...]:
        share = self.gpus.per_node
        return share[node] if node < len(share) else ()
