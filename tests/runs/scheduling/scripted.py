"""A controller on real stores whose engine is played by the test: what nodes tell, and when, is up to it."""

import errno
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from runyard.access.attempt_fence import AttemptFence
from runyard.access.blobs import CallerBlobs
from runyard.access.tokens import Tokens
from runyard.assets.secrets import Vault
from runyard.assets.workspaces import Workspaces
from runyard.compute.clusters import Clusters
from runyard.compute.kind import QueuePool
from runyard.compute.local.pool import LocalPool
from runyard.core.definitions.node_report import NodeReport
from runyard.core.errors import EngineError, RunyardError
from runyard.core.ports.engine import Capabilities, Disk, NodeTaskPhase, ObservedTask, Site, Ticket, ticket_for
from runyard.core.ports.stores import RunStore
from runyard.core.principal import OWNER, Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.launch_plan import LaunchPlan
from runyard.core.records.runs import AttemptId, RunId, RunRecord, RunStatus
from runyard.data.datasets.lineage import Lineage
from runyard.environments.workspace.built_environments import BuiltEnvironments
from runyard.environments.workspace.locks import EnvironmentLocks
from runyard.environments.workspace.names import EnvironmentNames
from runyard.environments.workspace.package_settings import WorkspacePackages
from runyard.environments.workspace.secrets import RegistryLogins
from runyard.runs.direct_inputs import DirectInputs
from runyard.runs.history.journals import Journals
from runyard.runs.history.notifications import Notifier, NotifyingRunStore
from runyard.runs.kinds.kind import KindTools
from runyard.runs.scheduling.controller import RunController
from runyard.runs.scheduling.launcher import LaunchDependencies, LaunchEnvironments
from runyard.storage.blobs.logs import FileLogStore
from runyard.storage.blobs.store import FileBlobStore
from runyard.storage.sql.stores import Stores
from runyard.testing.clock import FakeClock
from runyard.testing.records import a_run, a_workspace
from tests.grants import access_to


@dataclass
class PlayedEngine:
    """Starts nothing. Keeps what it was asked for; `phases` is what it says of the parts of a ticket."""

    plans: dict[str, LaunchPlan] = field(default_factory=dict)
    stops: list[tuple[str, str]] = field(default_factory=list)
    recovered: list[tuple[str, int]] = field(default_factory=list)
    phases: dict[str, list[ObservedTask]] = field(default_factory=dict)
    is_away: bool = False
    first_phase: NodeTaskPhase = NodeTaskPhase.ALIVE
    gives_job_ids: bool = False
    asked: list[list[str]] = field(default_factory=list)
    """The job ids of each question."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(64)

    def submit(self, plan: LaunchPlan) -> Ticket:
        self._require_here()
        job_id = f"job of {plan.attempt_id}" if self.gives_job_ids else None
        ticket = ticket_for(plan.attempt_id, len(plan.nodes), job_id)
        self.plans[str(ticket)] = plan
        self.phases[str(ticket)] = [ObservedTask(self.first_phase)] * len(plan.nodes)
        return ticket

    def observe(self, tickets: Sequence[Ticket]) -> Mapping[Ticket, Sequence[ObservedTask]]:
        self._require_here()
        self.asked.append([ticket.job_id for ticket in tickets])
        return {ticket: self.phases.get(str(ticket), [ObservedTask(NodeTaskPhase.LOST)]) for ticket in tickets}

    def recover(self, ticket: Ticket, node: int) -> None:
        self.recovered.append((str(ticket), node))

    def cancel(self, ticket: Ticket, *, grace: timedelta, end_as: str = "canceled") -> None:
        self._require_here()
        self.stops.append((str(ticket), end_as))

    def _require_here(self) -> None:
        if self.is_away:
            raise EngineError("The cluster does not answer.")


@dataclass
class PlayedOutputs:
    """Keeps what it was asked to save: attempt, output, files, whether it is to be registered."""

    saved: list[tuple[str, str, int, bool]] = field(default_factory=list)
    refusal: RunyardError | None = None

    def complete(self, who: Principal, attempt_id: AttemptId, name: str, *, files: int, registers: bool) -> None:
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
    queueing: Site
    """Its engine has a queue of its own."""

    def home(self) -> Site:
        return self.here

    def of(self, cluster: Asset) -> Site:
        return {"ray": self.elsewhere, "queue": self.queueing}.get(cluster.body.get("engine"), self.here)

    def all(self) -> Sequence[Site]:
        return [self.here, self.elsewhere, self.queueing]


class Stage:
    """A controller whose thread is not started: the test says when it looks."""

    refuses_missing_gpus = False

    def __init__(self, stores: Stores, folder: Path) -> None:
        self.stores, self.clock = stores, FakeClock()
        self.logs = FileLogStore(folder / "logs")
        self.engine, self.far = PlayedEngine(), PlayedEngine()
        self.queue = PlayedEngine(first_phase=NodeTaskPhase.QUEUED, gives_job_ids=True)
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
        here = Site("local", engine, pool, "http://here", Disk.SERVICE)
        queueing = Site("queue", self.queue, QueuePool(), "http://far", queues_itself=True)
        sites = PlayedSites(here, Site("far", self.far, pool, "http://far"), queueing)
        dependencies = LaunchDependencies(
            assets=self.stores.assets,
            files=self.stores.files,
            clusters=Clusters(self.stores.assets, sites),
            tokens=Tokens("secret"),
            environments=self._environments(runs),
            refuses_missing_gpus=self.refuses_missing_gpus,
            outputs=self.outputs,
        )
        access = access_to(stores)
        tools = KindTools(
            runs=runs,
            logs=logs,
            metrics=stores.metrics,
            trials=trials,
            journals=Journals(runs, stores.metrics, self.clock, access),
            inputs=DirectInputs(stores.assets, Lineage(stores.lineage, stores.assets, runs, self.clock, access)),
            clock=self.clock,
            access=access,
            home=self._folder,
            cpus=2,
        )
        self.controller = RunController(tools, stores.parts, dependencies, access)
        notifier.on_end(self.controller.kinds.child_ended)

    def _environments(self, runs: RunStore) -> LaunchEnvironments:
        stores, assets, root = self.stores, self.stores.assets, self._folder / "environments"
        access = access_to(stores)
        vault = Vault(assets, key_file=self._folder / "secrets.key")
        packages = WorkspacePackages(vault, Workspaces(assets, runs, self.clock, access))
        built = BuiltEnvironments(assets, EnvironmentNames(assets, self.clock), root, access)
        blobs = CallerBlobs(FileBlobStore(self._folder / "blobs"), runs, stores.files, assets, access)
        kept = EnvironmentLocks(runs, assets, blobs, self.clock, access)
        return LaunchEnvironments(root, packages, RegistryLogins(vault), built, kept)

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
        return vars(
            self.controller.report(OWNER, AttemptId(attempt), NodeReport.parse({"state": state, "node": node, **facts}))
        )

    def ready(self, node: int, **more: Any) -> Mapping[str, Any]:
        """With another port on each node."""
        facts = {"address": f"127.0.0.{node + 2}", "ports": {"master": 6105 + node}, "is_essential": True}
        return self.tell("ready", node, **facts, **more)

    def all_running(self, nodes: int = 2, *, attempt: str = "r1.1") -> None:
        for node in range(nodes):
            self.ready(node, attempt=attempt)
        for node in range(nodes):
            self.tell("running", node, attempt=attempt)
