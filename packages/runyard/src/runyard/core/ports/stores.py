from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from runyard.core.records.assets import Asset, AssetKind, Experiment, Workspace
from runyard.core.records.files import FileEntry, Snapshot
from runyard.core.records.lineage import DatasetUse
from runyard.core.records.metrics import MetricBatch, MetricSeries, MetricSummary
from runyard.core.records.nodes import Node, NodeTask
from runyard.core.records.runs import AttemptId, QueuedRun, RunEvent, RunId, RunQuery, RunRecord, RunStatus
from runyard.core.records.sweeps import Goal, RankedTrial, Trial, TrialStop


class RunStore(Protocol):
    """Stores runs durably.

    Safe to share between threads and processes. A returned record is a copy: no later write changes it.
    """

    def create(self, run: RunRecord) -> RunRecord:
        """Store a new run and give it the next `number` of its experiment. Raises AlreadyExists if its id is taken."""

    def get(self, run_id: RunId) -> RunRecord:
        """Raises NotFound."""

    def move(self, seen: RunRecord, to: RunStatus, passed: Sequence[RunEvent] = (), **changes: Any) -> RunRecord:
        """Change the status and other fields, and add an event, after those of statuses that the run `passed`.

        Raises Conflict if the run has changed since `seen`, or if NEXT forbids the step. Sets started_at on RUNNING and
        ended_at on a terminal status unless given; never before the submit or the start, whatever the clock says.
        """

    def update(self, run_id: RunId, **changes: Any) -> RunRecord:
        """Change fields other than status, whatever the current version is. `tags` and `properties` are merged,
        `warnings` appended; a tag set to None is removed. Raises Conflict for a property that is set to another
        value."""

    def list(self, query: RunQuery) -> Sequence[RunRecord]:
        """Runs without `definition` and `environment_lock`, to stay fast. `before`, the `sequence` of a page's last
        run, gives the next page, in either order. `metric_above` compares `order_by_metric`, strictly."""

    def unfinished(self) -> Sequence[RunRecord]:
        """All runs whose status is not terminal, oldest first; without `definition` and `environment_lock`."""

    def queue(self, workspace: str, target: str, *, limit: int) -> Sequence[QueuedRun]:
        """The oldest runs that are Queued for that target and not handed over to an engine's own queue, oldest first.
        Fast however many there are."""

    def descendants(self, run_id: RunId) -> Sequence[RunRecord]:
        """Children, their children and so on, each after its parent; empty for an unknown run. As light as `list`, and
        one query however many there are."""

    def add_event(self, run_id: RunId, event: RunEvent) -> None: ...

    def events(self, run_id: RunId) -> Sequence[RunEvent]: ...

    def delete(self, *run_ids: RunId) -> None:
        """Delete finished runs and all their rows in one transaction; ignores runs that are gone.

        Raises Conflict, and deletes none, while one of them is unfinished.
        """


class MetricStore(Protocol):
    """Metric points in chunks, and one summary row per run and metric."""

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
        """Store the points of bytes `start` to `end` of the journal, add to the dropped count and advance the journal.

        One transaction compares the stored offset with `start` and writes. A journal stored up to `end` or beyond is
        left alone, so delivering twice is harmless; any other difference raises Conflict with the stored end as
        `facts["offset"]`. `rank` logged the points. Points of new names beyond the run's `most_names` are skipped and
        counted as dropped; returns their number. Raises NotFound.
        """

    def offset(self, run_id: RunId, journal: str) -> int:
        """Number of bytes of the journal that are stored; 0 if it is unknown."""

    def offsets(self, run_id: RunId) -> Mapping[str, int]: ...

    def series(self, run_id: RunId, name: str | None = None, rank: int | None = None) -> Sequence[MetricSeries]:
        """Every metric of the run, or the named one, in the order first logged; of one rank, or of all ranks with their
        points merged by time."""

    def series_of(
        self, run_ids: Sequence[RunId], name: str | None = None, rank: int | None = None
    ) -> Mapping[RunId, Sequence[MetricSeries]]:
        """Series of many runs in few queries; see `series`. Has an entry for each id, empty for an unknown run."""

    def series_page(
        self,
        run_ids: Sequence[RunId],
        name: str | None = None,
        rank: int | None = None,
        *,
        after: int = 0,
        limit: int,
    ) -> tuple[Mapping[RunId, Sequence[MetricSeries]], int | None]:
        """One page of `series_of`: at most `limit` metrics, in the order first logged. Returns also the `after` of the
        next page; None with the last page."""

    def summaries(self, run_ids: Sequence[RunId]) -> Mapping[RunId, Sequence[MetricSummary]]: ...


class FileStore(Protocol):
    """Files of runs, and snapshots. Their bytes are in the BlobStore."""

    def put(self, run_id: RunId, entries: Sequence[FileEntry]) -> None:
        """Add entries, or replace those with the same path."""

    def find(self, run_id: RunId, path: str) -> FileEntry | None: ...

    def list(self, run_id: RunId, prefix: str = "") -> Sequence[FileEntry]:
        """Entries whose path begins with the prefix, sorted by path."""

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Store the snapshot. Its id is the hash of its entries, so a second put changes nothing."""

    def get_snapshot(self, snapshot_id: str) -> Snapshot:
        """Raises NotFound."""

    def used_blobs(self) -> set[str]:
        """Every sha256 that a run, a snapshot or an asset body contains, for garbage collection."""


class AssetStore(Protocol):
    """Workspaces, experiments, and the versioned assets of a workspace."""

    def create_workspace(self, workspace: Workspace) -> Workspace:
        """Raises AlreadyExists."""

    def get_workspace(self, name: str) -> Workspace: ...

    def list_workspaces(self) -> Sequence[Workspace]: ...

    def delete_workspace(self, name: str) -> None: ...

    def ensure_experiment(self, workspace: str, name: str) -> Experiment: ...

    def list_experiments(self, workspace: str) -> Sequence[Experiment]: ...

    def update_experiment(self, experiment: Experiment) -> None: ...

    def delete_experiment(self, workspace: str, name: str) -> None:
        """Does nothing if it is gone. Raises Conflict while it has runs."""

    def add(
        self,
        workspace: str,
        kind: AssetKind,
        name: str,
        body: Mapping[str, Any],
        tags: Mapping[str, str],
        created_by: str = "",
    ) -> Asset:
        """Store the next version of a name, atomically among writers; the first is 1. `id` is a new uuid4."""

    def get(self, workspace: str, kind: AssetKind, name: str, version: int | None = None) -> Asset:
        """The named version, or the latest. Raises NotFound."""

    def get_by_id(self, workspace: str, kind: AssetKind, asset_id: str) -> Asset: ...

    def list(
        self, workspace: str, kind: AssetKind, name: str | None = None, *, latest_only: bool = False
    ) -> Sequence[Asset]:
        """Sorted by name, newest version first. Assets named "" are listed only if `name` is ""."""

    def replace(self, seen: Asset, body: Mapping[str, Any], tags: Mapping[str, str]) -> Asset:
        """Change a version in place. Raises Conflict if it has changed since `seen`."""

    def delete(self, workspace: str, kind: AssetKind, name: str, version: int | None = None) -> None:
        """Delete one version, or all versions of a name; does nothing if it is gone."""


class NodeStore(Protocol):
    """Nodes of clusters and the runs that hold them."""

    def list(self, workspace: str, cluster: str | None = None) -> Sequence[Node]: ...

    def put(self, nodes: Sequence[Node]) -> None:
        """Add nodes, or replace those with the same workspace, cluster and name."""

    def remove(self, workspace: str, cluster: str, names: Sequence[str]) -> None: ...

    def release(self, run_id: RunId) -> Sequence[Node]:
        """Make every node that the run holds idle, and return them."""


class NodeTaskStore(Protocol):
    """State of each node task of an attempt. Deleted with its run."""

    def put(self, part: NodeTask) -> Sequence[NodeTask]:
        """Store the task unless its stored state is the same or later: states only go forward. `facts` are merged into
        the stored ones. Returns all tasks of the attempt by node, in the same transaction. Raises NotFound for an
        unknown run."""

    def list(self, attempt_id: AttemptId) -> Sequence[NodeTask]:
        """Tasks by node; empty for an unknown attempt."""


class LineageStore(Protocol):
    """Dataset versions that runs read and wrote. A record is deleted only with its run."""

    def record(self, uses: Sequence[DatasetUse]) -> None:
        """Store uses; safe to repeat: the first record of a dataset under a name of a run stays. A use without a name
        is skipped if the run has the dataset already. Raises NotFound for an unknown run."""

    def of_run(self, run_id: RunId) -> Sequence[DatasetUse]:
        """Uses in the order recorded; empty for an unknown run."""

    def of_dataset(self, dataset_id: str) -> Sequence[DatasetUse]:
        """Uses in the order recorded."""


class TrialStore(Protocol):
    """Trials of sweeps and the decisions to stop them. Deleted with their sweep; a trial also with its run."""

    def add(self, trials: Sequence[Trial]) -> None:
        """Store trials in one transaction. A stored trial is left alone. Raises NotFound for an unknown sweep."""

    def list(self, sweep_id: RunId) -> Sequence[Trial]:
        """Trials by number; empty for an unknown sweep."""

    def stop(self, sweep_id: RunId, number: int, stop: TrialStop) -> bool:
        """Store the decision to stop a trial. Returns False, and changes nothing, if one is stored or the trial is
        gone."""

    def ranked(
        self,
        sweep_ids: Sequence[RunId],
        metric: str,
        goal: Goal,
        *,
        limit: int | None = None,
        leave_out: Collection[RunStatus] = (),
    ) -> Sequence[RankedTrial]:
        """Trials of these sweeps with the results of their runs: best first, ties by sweep and number, those without a
        finite number last. Skips runs with a status in `leave_out`. Fast for tens of thousands."""

    def tally(self, sweep_id: RunId) -> Mapping[tuple[RunStatus, bool], int]:
        """Count of trials by status and by whether a policy has stopped them. NotStarted if the run does not exist
        yet."""

    def logged(self, sweep_id: RunId) -> Mapping[str, int]:
        """Number of child runs that logged each metric, most frequent first."""


RunRows = dict[str, Any]
"""All rows of one run except its metrics, as JSON."""


class RunTransfer(Protocol):
    """Exports and imports all rows of one run as JSON."""

    def rows(self, run_id: RunId) -> RunRows:
        """All rows except metrics. Raises NotFound."""

    def metric_lines(self, run_id: RunId) -> Iterator[bytes]:
        """Metrics with all points, one JSON line each."""

    def checked(self, given: Any) -> RunRows:
        """Foreign rows after a check of every value. Raises InvalidArgument."""

    def insert(self, workspace: str, given: RunRows, metric_lines: Iterable[bytes]) -> None:
        """Store an ended run completely or not at all. Raises AlreadyExists, InvalidArgument."""

    def insert_model(self, model: Asset) -> None:
        """Store a model with its version and id; later versions continue from it. Raises Conflict."""
