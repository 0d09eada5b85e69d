import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from runyard.core.disk import write_all
from runyard.core.durable_files import replacement
from runyard.core.records.launch_plan import node_task_name
from runyard.core.records.runs import AttemptId, RunId


@dataclass(frozen=True)
class RemoteNode:
    """A node of a remote cluster."""

    id: str
    address: str
    name: str


@dataclass(frozen=True)
class Placement:
    """The nodes on which an attempt was started."""

    attempt_id: AttemptId
    run_id: RunId
    nodes: tuple[RemoteNode, ...]

    def parts(self) -> list[tuple[str, RemoteNode]]:
        return [(node_task_name(self.attempt_id, index), node) for index, node in enumerate(self.nodes)]


class Placements:
    """Placements of attempts, in files of the service's home, so that they survive a restart."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Placement] = {}

    def find(self, attempt_id: str) -> Placement | None:
        if attempt_id not in self._known:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                body = json.loads(self._file(attempt_id).read_bytes())
                nodes = tuple(RemoteNode(node_id, address, name) for node_id, address, name in body["nodes"])
                self._known[attempt_id] = Placement(AttemptId(attempt_id), RunId(body["run_id"]), nodes)
        return self._known.get(attempt_id)

    def keep(self, placement: Placement) -> None:
        nodes = [[node.id, node.address, node.name] for node in placement.nodes]
        body = {"attempt_id": placement.attempt_id, "run_id": placement.run_id, "nodes": nodes}
        with replacement(self._file(placement.attempt_id), make_folder=True) as fd:
            write_all(fd, json.dumps(body).encode())
        self._known[placement.attempt_id] = placement

    def forget_others(self, living: set[RunId]) -> None:
        """Forget the attempts of all other runs."""
        for file in self._folder.glob("[!.]*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                body = json.loads(file.read_bytes())
                if RunId(body["run_id"]) in living:
                    self.find(body["attempt_id"])
                else:
                    self._known.pop(body["attempt_id"], None)
                    file.unlink(missing_ok=True)

    def busy_nodes(self, living: set[RunId]) -> set[str]:
        """Ids of the nodes on which attempts of these runs were started."""
        found: Sequence[Placement] = list(self._known.values())
        return {node.id for placement in found if placement.run_id in living for node in placement.nodes}

    def _file(self, attempt_id: str) -> Path:
        return self._folder / f"{quote(attempt_id, safe='')}.json"


REPLACE_SECONDS = 20.0
GIVE_UP_SECONDS = 60.0


class UnresponsiveNodes:
    """Nodes that are part of the cluster but do not answer, and since when."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._replaced: set[str] = set()

    def answered(self, node_id: str) -> None:
        self._since.pop(node_id, None)
        self._replaced.discard(node_id)

    def missed(self, node_id: str) -> None:
        self._since.setdefault(node_id, self._clock())

    def is_silent(self, node_id: str) -> bool:
        return node_id in self._since

    def wants_replacement(self, node_id: str) -> bool:
        """Tell, once for each silence, that it has lasted so long that the node's agent should be replaced."""
        if self._seconds(node_id) < REPLACE_SECONDS or node_id in self._replaced:
            return False
        self._replaced.add(node_id)
        return True

    def is_final(self, node_id: str) -> bool:
        """Tell whether the node has been silent so long that it is given up."""
        return self._seconds(node_id) >= GIVE_UP_SECONDS

    def _seconds(self, node_id: str) -> float:
        return self._clock() - self._since[node_id] if node_id in self._since else 0.0
