"""A controller on real stores whose engine is played by the test: what nodes tell, and when, is up to it."""

import errno
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from runyard.blobs.logs import FileLogStore
from runyard.controller.controller import Controller
from runyard.controller.launching import Surroundings
from runyard.controller.sweeps.filling import SweepSurroundings
from runyard.engines.local_pool import LocalPool
from runyard.environments.uv import UvEnvironments
from runyard.errors import EngineError, RunyardError
from runyard.model.assets import Asset, AssetKind
from runyard.model.plan import LaunchPlan
from runyard.model.runs import AttemptId, RunId, RunRecord, RunStatus
from runyard.ports.engine import Capabilities, Observed, PartPhase, Site, Ticket, ticket_for
from runyard.services.attempt_fence import AttemptFence
from runyard.services.notifier import Notifier
from runyard.services.notifying import NotifyingRunStore
from runyard.services.places import Places
from runyard.services.sweeps.live import LiveSweeps
from runyard.services.tokens import Tokens
from runyard.stores.sql import Stores
from runyard.testing.clock import FakeClock
from runyard.testing.records import a_run, a_workspace


@dataclass
class PlayedEngine:
    """Starts nothing. Keeps what it was asked for; `phases` is what it says of the parts of a ticket."""

    shares_files: bool = True
    plans: dict[Ticket, LaunchPlan] = field(default_factory=dict)
    stops: list[tuple[Ticket, str]] = field(default_factory=list)
    recovered: list[tuple[Ticket, int]] = field(default_factory=list)
    phases: dict[Ticket, list[Observed]] = field(default_factory=dict)
    is_away: bool = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(64, shares_files=self.shares_files)

    def submit(self, plan: LaunchPlan) -> Ticket:
        self._require_here()
        ticket = ticket_for(plan.attempt_id, len(plan.nodes))
        self.plans[ticket] = plan
        self.phases[ticket] = [Observed(PartPhase.ALIVE)] * len(plan.nodes)
        return ticket

    def observe(self, tickets: Sequence[Ticket]) -> Mapping[Ticket, Sequence[Observed]]:
        self._require_here()
        return {ticket: self.phases.get(ticket, [Observed(PartPhase.LOST)]) for ticket in tickets}

    def recover(self, ticket: Ticket, node: int) -> None:
        self.recovered.append((ticket, node))

    def cancel(self, ticket: Ticket, *, grace: timedelta, end_as: str = "canceled") -> None:
        self._require_here()
        self.stops.append((ticket, end_as))

    def _require_here(self) -> None:
        if self.is_away:
            raise EngineError("The cluster does not answer.")


@dataclass
class PlayedOutputs:
    """Keeps what it was asked to save: attempt, output, files, whether it is to be registered."""

    saved: list[tuple[str, str, int, bool]] = field(default_factory=list)
    refusal: RunyardError | None = None

    def complete(self, attempt_id: AttemptId, name: str, *, files: int, registers: bool) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.saved.append((attempt_id, name, files, registers))


class FullDisk(io.StringIO):
    """A file on a disk that is full, as the service's own log may be."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@dataclass
class PlayedSites:
    """This machine, and one elsewhere for the compute targets that say so."""

    here: Site
    elsewhere: Site

    def home(self) -> Site:
        return self.here

    def of(self, cluster: Asset) -> Site:
        return self.elsewhere if cluster.body.get("engine") == "ray" else self.here

    def all(self) -> Sequence[Site]:
        return [self.here, self.elsewhere]


class Stage:
    """A controller whose thread is not started: the test says when it looks."""

    refuses_missing_gpus = False

    def __init__(self, stores: Stores, folder: Path) -> None:
        self.stores, self.clock = stores, FakeClock()
        self.logs = FileLogStore(folder / "logs")
        self.engine, self.far = PlayedEngine(), PlayedEngine(shares_files=False)
        self.outputs = PlayedOutputs()
        self._folder = folder
        self.open()
        stores.assets.create_workspace(a_workspace())

    def open(self, wrapped: Callable[[Any], Any] = lambda part: part) -> None:
        """As a service that begins anew on the same stores. `wrapped` stands around what sweeps are moved with."""
        stores, notifier = self.stores, Notifier()
        engine, logs, trials = wrapped(self.engine), wrapped(self.logs), wrapped(stores.trials)
        runs = NotifyingRunStore(wrapped(stores.runs), notifier, AttemptFence(stores.runs))
        pool = LocalPool(stores.nodes, self.clock)
        sites = PlayedSites(Site("local", engine, pool, "http://here"), Site("far", self.far, pool, "http://far"))
        around = Surroundings(
            assets=self.stores.assets,
            files=self.stores.files,
            places=Places(self.stores.assets, sites),
            tokens=Tokens("secret"),
            environments=lambda variables: UvEnvironments(self._folder / "environments", variables),
            refuses_missing_gpus=self.refuses_missing_gpus,
            outputs=self.outputs,
        )
        cancel = lambda run_id: self.controller.cancel(run_id)  # noqa: E731
        self.live = LiveSweeps(runs, stores.metrics, trials, logs, self.clock, cancel)
        sweeping = SweepSurroundings(trials, self.live, most_unmanaged=2)
        self.controller = Controller(runs, logs, stores.parts, self.clock, around, sweeping)
        notifier.on_end(self.controller.heard_end)

    def cluster(self, name: str = "gang", **body: Any) -> None:
        self.stores.assets.add("vision", AssetKind.COMPUTE, name, {"max_nodes": 4, **body}, {})

    def run(self, nodes: int = 2, target: str = "gang", run_id: str = "r1", **variables: str) -> RunRecord:
        """A run that has been started on that many nodes."""
        definition = {
            "target": target,
            "script": "train.py",
            "nodeCount": nodes,
            "communicator": "Gloo" if nodes > 1 else "None",
            "pyTorch": {"processCount": nodes, "communicationBackend": "gloo"},
            "environment": {
                "python": {"userManagedDependencies": True, "interpreterPath": "/usr/bin/python3"},
                "environmentVariables": variables,
            },
        }
        self.stores.runs.create(a_run(run_id, target=target, status=RunStatus.NOT_STARTED, definition=definition))
        self.controller.advance(RunId(run_id))
        return self.get(run_id)

    def get(self, run_id: str = "r1") -> RunRecord:
        return self.stores.runs.get(RunId(run_id))

    def tell(self, state: str, node: int = 0, *, attempt: str = "r1.1", **facts: Any) -> Mapping[str, Any]:
        return self.controller.report(AttemptId(attempt), {"state": state, "node": node, **facts})

    def ready(self, node: int, **more: Any) -> Mapping[str, Any]:
        """With another port on each node."""
        facts = {"address": f"127.0.0.{node + 2}", "ports": {"master": 6105 + node}, "is_essential": True}
        return self.tell("ready", node, **facts, **more)

    def all_running(self, nodes: int = 2, *, attempt: str = "r1.1") -> None:
        for node in range(nodes):
            self.ready(node, attempt=attempt)
        for node in range(nodes):
            self.tell("running", node, attempt=attempt)
