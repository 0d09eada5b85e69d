"""A compute kind in one file: a cluster that is a folder, with a queue of its own.

`python toy_compute.py FOLDER` is the cluster. It starts the oldest queued jobs while fewer run than FOLDER/slots says,
each on one node, which is this machine with a home of its own. The rest is the plug-in, for the service.
"""

import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from runyard.compute.fields import NoFields, option
from runyard.compute.kind import ComputeKind, QueuePool, SiteNeeds, SiteParts
from runyard.compute.remote.node_agent import NodeAgent
from runyard.core.errors import EngineError, InvalidArgument
from runyard.core.plan_json import plan_to_json
from runyard.core.ports.engine import Capabilities, NodeTaskPhase, ObservedTask, Ticket, ticket_for
from runyard.core.records.launch_plan import LaunchPlan
from runyard.core.version import VERSION
from runyard.node.agent_client import AgentClient, NodeTasks

STATES = ("queued", "started", "removed")


@dataclass(frozen=True)
class ToyTarget:
    folder: str = option("The folder that is the cluster.")

    def __post_init__(self) -> None:
        if not os.path.isabs(self.folder):
            raise InvalidArgument(f"folder must be an absolute path, got {self.folder!r}.")


class ToyEngine:
    """A job is a file named after its attempt. Renaming it moves it from state to state, so that one mover wins."""

    capabilities = Capabilities(max_nodes=1)

    def __init__(self, folder: Path, service: Mapping[str, str]) -> None:
        self._folder, self._service = folder, service
        self._node = NodeTasks(folder / "node", AgentClient(folder / "node"))

    def submit(self, plan: LaunchPlan) -> Ticket:
        self._note("submit", plan.attempt_id)
        found = next((file for state in STATES if (file := self._folder / state / plan.attempt_id).exists()), None)
        if found is not None:
            return ticket_for(plan.attempt_id, 1, json.loads(found.read_bytes())["job_id"])
        job_id = f"toy-{time.time_ns()}"
        start = {"op": "start", "version": VERSION, "service": self._service, "part": plan.part}
        body = {"job_id": job_id, "start": {**start, "plan": plan_to_json(plan)}}
        beside = self._folder / f".{plan.attempt_id}"
        beside.write_text(json.dumps(body), encoding="utf-8")
        beside.rename(self._folder / "queued" / plan.attempt_id)
        return ticket_for(plan.attempt_id, 1, job_id)

    def observe(self, tickets: Sequence[Ticket]) -> Mapping[Ticket, Sequence[ObservedTask]]:
        self._note("observe", *(ticket.job_id for ticket in tickets))
        listed = {state: set(os.listdir(self._folder / state)) for state in STATES}
        return {ticket: [self._observed(ticket.attempt_id, listed)] for ticket in tickets}

    def recover(self, ticket: Ticket, node: int) -> None:
        self._note("recover", ticket.job_id)
        self._node.recover(ticket.attempt_id)

    def cancel(self, ticket: Ticket, *, grace: timedelta, end_as: str = "canceled") -> None:
        self._note("cancel", ticket.job_id)
        try:
            (self._folder / "queued" / ticket.attempt_id).rename(self._folder / "removed" / ticket.attempt_id)
        except FileNotFoundError:
            self._node.cancel(ticket.attempt_id, grace.total_seconds(), end_as)

    def _observed(self, attempt: str, listed: Mapping[str, set[str]]) -> ObservedTask:
        if attempt in listed["queued"]:
            return ObservedTask(NodeTaskPhase.QUEUED, f"{len(listed['queued'])} jobs are queued.")
        if attempt in listed["removed"]:
            return ObservedTask(NodeTaskPhase.GONE, "The job was removed from the queue.")
        return ObservedTask(self._node.phase(attempt))

    def _note(self, *words: str) -> None:
        """For the tests: every call is a line."""
        with (self._folder / "calls").open("a", encoding="utf-8") as calls:
            calls.write(" ".join(words) + "\n")


def _require(target: ToyTarget, settings: NoFields, home: Path) -> None:
    if not (Path(target.folder) / "queued").is_dir():
        raise EngineError(f"There is no toy cluster in {target.folder}.", hint="Start toy_compute.py there.")


def _make(target: ToyTarget, settings: NoFields, needs: SiteNeeds) -> SiteParts:
    service = {"url": needs.node_url, "ca": needs.node_ca}
    return SiteParts(ToyEngine(Path(target.folder), service), QueuePool(), needs.node_url)


KIND = ComputeKind(
    name="toy",
    title="Toy",
    target=ToyTarget,
    settings=NoFields,
    make=_make,
    place=lambda target, settings: target.folder,
    require=_require,
    queues_itself=True,
    attached_as="Toy",
    attach_help="Attach a folder in which toy_compute.py runs.",
    shown=lambda target: f"Toy in {target.folder}",
)


def serve(folder: Path) -> None:
    for part in (*STATES, "node"):
        (folder / part).mkdir(parents=True, exist_ok=True, mode=0o700)
    node = NodeAgent(folder / "node")
    while True:
        started = os.listdir(folder / "started")
        phases = node.ask({"op": "phases", "parts": started})["phases"]
        free = int((folder / "slots").read_text()) - sum(phase == "alive" for phase in phases.values())
        queued = sorted((folder / "queued").iterdir(), key=lambda file: file.stat().st_mtime_ns)
        for job in itertools.islice(queued, max(0, free)):
            with contextlib.suppress(FileNotFoundError):  # removed this very moment
                node.ask(json.loads(job.rename(folder / "started" / job.name).read_bytes())["start"])
        time.sleep(0.05)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
