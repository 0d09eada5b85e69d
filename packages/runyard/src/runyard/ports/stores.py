from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from runyard.model.assets import Asset, AssetKind, Experiment, Workspace
from runyard.model.files import FileEntry, Snapshot
from runyard.model.lineage import DatasetUse
from runyard.model.metrics import MetricBatch, MetricSeries, MetricSummary
from runyard.model.nodes import Node
from runyard.model.parts import Part
from runyard.model.runs import AttemptId, QueuedRun, RunEvent, RunId, RunQuery, RunRecord, RunStatus
from runyard.model.sweeps import Goal, RankedTrial, Stop, Trial


class RunStore(Protocol):
    """The durable truth about runs.

    Safe to share between threads and processes. A returned record is a snapshot: no later write changes it.
    """

    def create(self, run: RunRecord) -> RunRecord:
        """Store a new run, give it the next `number` of its experiment. Raises AlreadyExists if its id is taken."""

    def get(self, run_id: RunId) -> RunRecord:
        """Raises NotFound."""

    def move(self, seen: RunRecord, to: RunStatus, **changes: Any) -> RunRecord:
        """Change status (and fields) and add an event, if nobody has changed the run since `seen`; else Conflict.
        Sets started_at on RUNNING and ended_at on a terminal status unless given: not before the submit or the start,
        whatever the clock says. Conflict too if NEXT forbids it."""

    def update(self, run_id: RunId, **changes: Any) -> RunRecord:
        """Change fields other than status, whatever the version is now. `tags` and `properties` are merged;
        `warnings` are appended; a tag given None is removed; a property already set to another value is Conflict."""

    def list(self, query: RunQuery) -> Sequence[RunRecord]:
        """Without `definition` and `environment_lock`, to stay quick. `before`, the `sequence` of a page's last
        run, gives the page after it, in either order. `metric_above` is of `order_by_metric` and strict."""

    def unfinished(self) -> Sequence[RunRecord]:
        """All runs whose status is not terminal, oldest first; without `definition` and `environment_lock`."""

    def queue(self, workspace: str, target: str, *, limit: int) -> Sequence[QueuedRun]:
        """The first of those that are Queued for that target and not handed over to an engine's own queue, oldest
        first. Quick however many there are."""

    def descendants(self, run_id: RunId) -> Sequence[RunRecord]:
        """Children, their children and so on, each after its parent; empty for an unknown run. As light as `list`,
        and one question however many there are."""

    def add_event(self, run_id: RunId, event: RunEvent) -> None: ...

    def events(self, run_id: RunId) -> Sequence[RunEvent]: ...

    def delete(self, *run_ids: RunId) -> None:
        """Remove finished runs and all that belongs to them, in one transaction; quiet of those that are gone.

        Raises Conflict, and removes none, while one is going on.
        """


class MetricStore(Protocol):
    """Points in chunks per (run, metric), and one summary row each."""

    def append(
        self,
        run_id: RunId,
        journal: str,
        start: int,
        end: int,
        batches: Sequence[MetricBatch],
        dropped: int = 0,
        rank: int = 0,
        most_names: int | None = None,
    ) -> int:
        """Write the points of bytes `start` to `end` of the journal, count the dropped and move the journal to `end`.

        One transaction compares the stored offset with `start` and writes: a journal stored up to `end` or beyond
        stays as it is, so delivering twice is harmless; any other difference raises Conflict with the stored end as
        `facts["offset"]`. `rank` logged the points. Points of names beyond the run's `most_names` are left out, counted
        as dropped, and their number is returned. Raises NotFound."""

    def offset(self, run_id: RunId, journal: str) -> int:
        """Up to which byte this journal has been stored; 0 when never seen."""

    def offsets(self, run_id: RunId) -> Mapping[str, int]: ...

    def series(self, run_id: RunId, name: str | None = None, rank: int | None = None) -> Sequence[MetricSeries]:
        """Every metric of the run, or the named one, in the order first logged; of that rank alone, or of all
        ranks: then their points are merged by time."""

    def series_of(
        self, run_ids: Sequence[RunId], name: str | None = None, rank: int | None = None
    ) -> Mapping[RunId, Sequence[MetricSeries]]:
        """As `series`, of many runs in few questions; nothing for an unknown run. Each id asked for has its answer."""

    def series_page(
        self,
        run_ids: Sequence[RunId],
        name: str | None = None,
        rank: int | None = None,
        *,
        after: int = 0,
        limit: int,
    ) -> tuple[Mapping[RunId, Sequence[MetricSeries]], int | None]:
        """As `series_of`, of at most `limit` metrics in the order first logged. The number goes on as `after`; None
        with the last page."""

    def summaries(self, run_ids: Sequence[RunId]) -> Mapping[RunId, Sequence[MetricSummary]]: ...


class FileStore(Protocol):
    """Which files a run has, and which snapshots there are. The bytes lie in the BlobStore."""

    def put(self, run_id: RunId, entries: Sequence[FileEntry]) -> None:
        """Add or replace by path."""

    def find(self, run_id: RunId, path: str) -> FileEntry | None: ...

    def list(self, run_id: RunId, prefix: str = "") -> Sequence[FileEntry]:
        """By path."""

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Ensures it is there; the id is the hash of its entries, so a second put changes nothing."""

    def get_snapshot(self, snapshot_id: str) -> Snapshot:
        """Raises NotFound."""

    def used_blobs(self) -> set[str]:
        """Every sha256 that a run, a snapshot or an asset body names, for garbage collection."""


class AssetStore(Protocol):
    """Workspaces, experiments, and the versioned named things of a workspace."""

    def create_workspace(self, workspace: Workspace) -> Workspace:
        """Raises AlreadyExists."""

    def get_workspace(self, name: str) -> Workspace: ...

    def list_workspaces(self) -> Sequence[Workspace]: ...

    def delete_workspace(self, name: str) -> None: ...

    def ensure_experiment(self, workspace: str, name: str) -> Experiment: ...

    def list_experiments(self, workspace: str) -> Sequence[Experiment]: ...

    def update_experiment(self, experiment: Experiment) -> None: ...

    def delete_experiment(self, workspace: str, name: str) -> None:
        """Quiet when gone. Raises Conflict while it has runs."""

    def add(
        self,
        workspace: str,
        kind: AssetKind,
        name: str,
        body: Mapping[str, Any],
        tags: Mapping[str, str],
        created_by: str = "",
    ) -> Asset:
        """Store the next version of a name (1 for the first), atomically among writers. `id` is a new uuid4."""

    def get(self, workspace: str, kind: AssetKind, name: str, version: int | None = None) -> Asset:
        """The named version, or the latest. Raises NotFound."""

    def get_by_id(self, workspace: str, kind: AssetKind, asset_id: str) -> Asset: ...

    def list(
        self, workspace: str, kind: AssetKind, name: str | None = None, *, latest_only: bool = False
    ) -> Sequence[Asset]:
        """By name, newest version first. What is named "" is listed only when that name is asked for."""

    def replace(self, seen: Asset, body: Mapping[str, Any], tags: Mapping[str, str]) -> Asset:
        """Change a version in place if nobody has since `seen`; else Conflict."""

    def delete(self, workspace: str, kind: AssetKind, name: str, version: int | None = None) -> None:
        """One version or all of a name; quiet when gone."""


class NodeStore(Protocol):
    """The slots of clusters and who holds them."""

    def list(self, workspace: str, cluster: str | None = None) -> Sequence[Node]: ...

    def put(self, nodes: Sequence[Node]) -> None:
        """Add or replace by (workspace, cluster, name)."""

    def remove(self, workspace: str, cluster: str, names: Sequence[str]) -> None: ...

    def release(self, run_id: RunId) -> Sequence[Node]:
        """Make every node that this run holds idle; return them. Quiet when it holds none."""


class PartStore(Protocol):
    """How far each node of an attempt has come. What is kept goes with its run."""

    def put(self, part: Part) -> Sequence[Part]:
        """Keep it, unless the part has come as far already: states only go forward. `facts` are merged into those
        known. Returns all parts of the attempt by node, in the same transaction. Raises NotFound for an unknown run."""

    def list(self, attempt_id: AttemptId) -> Sequence[Part]:
        """By node; empty for an unknown attempt."""


class LineageStore(Protocol):
    """Which dataset versions runs read and wrote. What is recorded goes with its run and with nothing else."""

    def record(self, uses: Sequence[DatasetUse]) -> None:
        """Each safe to record twice: the same dataset under the same name of a run stays as it was first. One
        without a name is left out when that run has the dataset already. Raises NotFound for an unknown run."""

    def of_run(self, run_id: RunId) -> Sequence[DatasetUse]:
        """In the order recorded; empty for an unknown run."""

    def of_dataset(self, dataset_id: str) -> Sequence[DatasetUse]:
        """In the order recorded."""


class TrialStore(Protocol):
    """What sweeps have sampled, and what was decided of it. It goes with its sweep, a trial with its run."""

    def add(self, trials: Sequence[Trial]) -> None:
        """Keep them, in one transaction. A trial that is there stays as it is. Raises NotFound for an unknown sweep."""

    def list(self, sweep_id: RunId) -> Sequence[Trial]:
        """By number; empty for an unknown sweep."""

    def stop(self, sweep_id: RunId, number: int, stop: Stop) -> bool:
        """Keep why it is stopped; False, and nothing is changed, where that was said before or the trial is gone."""

    def ranked(
        self,
        sweep_ids: Sequence[RunId],
        metric: str,
        goal: Goal,
        *,
        limit: int | None = None,
        leave_out: Collection[RunStatus] = (),
    ) -> Sequence[RankedTrial]:
        """The trials of these sweeps with what their runs logged: best first, equals by sweep and number, those without
        a finite number last; none whose run has a status of `leave_out`. Quick for ten thousands."""

    def tally(self, sweep_id: RunId) -> Mapping[tuple[RunStatus, bool], int]:
        """How many trials are at each status, apart by whether a policy has stopped them. NotStarted where the run is
        not made yet."""

    def logged(self, sweep_id: RunId) -> Mapping[str, int]:
        """In how many children each metric was logged, the commonest first."""
