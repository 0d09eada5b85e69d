import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from runyard.compute.clusters import UNMANAGED_TARGETS, Clusters
from runyard.compute.local.pool import nodes_without_cluster
from runyard.core.errors import Conflict, EngineError, EngineSilent, NotFound, RunyardError
from runyard.core.ports.clock import Clock
from runyard.core.ports.engine import Ticket
from runyard.core.ports.stores import RunStore
from runyard.core.records.nodes import NodeAllocation
from runyard.core.records.runs import RunId, RunRecord, RunStatus, attempt_id
from runyard.runs.kinds.registry import RunKinds
from runyard.runs.scheduling.attempt_tasks import AttemptStopper
from runyard.runs.scheduling.build_coalescer import BuildCoalescer
from runyard.runs.scheduling.launcher import Launcher

_S = RunStatus
_MOST_PREPARATIONS = 5
NOT_STARTED = "Not started yet."
"""Start of the message of a run that its engine refused; the reason follows."""
Fail = Callable[[RunId, RunyardError], None]


class RunStarter:
    """Takes a run from submit to start. Each step is a guarded move in the store, then an act safe to repeat."""

    def __init__(
        self,
        runs: RunStore,
        clusters: Clusters,
        kinds: RunKinds,
        launcher: Launcher,
        stopper: AttemptStopper,
        clock: Clock,
        fail: Fail,
        wake: Callable[[RunId], None],
        launched_from: str | None = None,
    ) -> None:
        self._runs, self._clusters, self._kinds, self._launcher = runs, clusters, kinds, launcher
        self._stopper, self._clock, self._fail, self._wake = stopper, clock, fail, wake
        self._launched_from = launched_from
        self._prepared: dict[str, str] = {}
        self._coalescer = BuildCoalescer(runs)

    def begin(self, run: RunRecord) -> RunRecord:
        return self._queue_or_start(run) if self._launcher.has_environment(run) else self._prepare_or_wait(run)

    def prepare(self, run: RunRecord) -> RunRecord:
        self._act(run, lambda: self._launcher.prepare(run))
        return self._stopped_if_canceled(run)

    def may_prepare_again(self, run: RunRecord) -> bool:
        return run.attempt < _MOST_PREPARATIONS

    def prepare_elsewhere(self, run: RunRecord) -> RunRecord:
        """Build the environment on another node, after the first one was lost."""
        number = run.attempt + 1
        return self.prepare(self._runs.update(run.id, **self._attempt(run, number)))

    def note_prepared(self, attempt: str, key: str) -> None:
        """Remember the key of an environment that a node reported as built."""
        self._prepared[attempt] = key

    def after_preparation(self, run: RunRecord) -> RunRecord:
        """Queue or start the run if its environment is there; else build it or wait for another run's build."""
        key = self._prepared.pop(run.ticket, None) if run.ticket else None
        if key is not None:
            self._launcher.note_built(run, key)
        if key is not None or self._launcher.has_environment(run):
            self._release_waiting(run)
            return self._queue_or_start(run)
        return run if run.ticket else self._prepare_or_wait(run)

    def waiting_for(self, run_id: RunId) -> Sequence[RunId]:
        """Runs that wait for the build of that run."""
        return self._coalescer.waiting_for(run_id)

    def forget_build(self, run_id: RunId) -> None:
        """Forget that the run, which has ended, was a builder."""
        self._coalescer.done(run_id)

    def start_unmanaged(self, run: RunRecord) -> RunRecord:
        """Start a run that needs no nodes of a cluster."""
        alone = run.definition.node_count == 1
        return self.start(
            run, NodeAllocation() if alone else NodeAllocation(nodes_without_cluster(run, self._clock.now()))
        )

    def start(self, run: RunRecord, allocation: NodeAllocation) -> RunRecord:
        number = run.attempt + 1
        names = tuple(node.name for node in allocation.nodes)
        run = self._runs.move(run, _S.STARTING, **self._attempt(run, number), nodes=names, message="Starting.")
        return self._launch(run, allocation)

    def hand_over(self, run: RunRecord) -> RunRecord:
        """Submit the run to an engine with its own queue. It stays Queued until its supervisor reports."""
        allocation = self._clusters.unplaced(run, run.definition.node_count)
        names = tuple(node.name for node in allocation.nodes)
        attempt = self._attempt(run, run.attempt + 1)
        run = self._runs.move(run, _S.QUEUED, **attempt, nodes=names, message=f"In the queue of '{run.target}'.")
        return self._launch(run, allocation)

    def start_again(self, run: RunRecord) -> RunRecord:
        """Submit the same attempt again, after an engine that got none or only some of its tasks."""
        if run.target in UNMANAGED_TARGETS:
            return self._launch(
                run,
                NodeAllocation(nodes_without_cluster(run, self._clock.now()))
                if len(run.nodes) > 1
                else NodeAllocation(),
            )
        return self._launch(run, self._clusters.held_by(run))

    def _prepare_or_wait(self, run: RunRecord) -> RunRecord:
        """Build the environment, unless another run builds the same one."""
        what = self._launcher.build_of(run)
        self._coalescer.raise_if_build_failed(run.id)
        builder = self._coalescer.builder(what, run.id)
        if builder is not None:
            return self._preparing(run, message=f"Waiting for run {builder}, which builds the same environment.")
        number = run.attempt + 1
        attempt = self._attempt(run, number)
        return self.prepare(self._preparing(run, **attempt, message="Preparing the environment."))

    def _attempt(self, run: RunRecord, number: int) -> dict[str, Any]:
        attempt = attempt_id(run.id, number)
        return {"attempt": number, "ticket": attempt, "job_id": None, "launched_from": self._launched_from}

    def _preparing(self, run: RunRecord, **changes: Any) -> RunRecord:
        if run.status is not _S.PREPARING:
            return self._runs.move(run, _S.PREPARING, **changes)
        has_changed = any(getattr(run, name) != value for name, value in changes.items())
        return self._runs.update(run.id, **changes) if has_changed else run

    def _release_waiting(self, run: RunRecord) -> None:
        """Queue all runs that waited for this build, then wake each of them."""
        for run_id in self._coalescer.done(run.id):
            with contextlib.suppress(Conflict, NotFound):  # canceled or deleted meanwhile
                waiting = self._runs.get(run_id)
                if waiting.status is _S.PREPARING and self._kinds.of(waiting).prepared(waiting) is None:
                    self._runs.move(waiting, _S.QUEUED, message="The environment is ready.")
            self._wake(run_id)

    def _queue_or_start(self, run: RunRecord) -> RunRecord:
        ended = self._kinds.of(run).prepared(run)
        if ended is not None:
            return ended
        if run.target in UNMANAGED_TARGETS:
            return self.start_unmanaged(run)
        return self._runs.move(run, _S.QUEUED, message=f"Waiting for nodes of '{run.target}'.")

    def _launch(self, run: RunRecord, allocation: NodeAllocation) -> RunRecord:
        self._act(run, lambda: self._launcher.launch(run, allocation))
        return self._stopped_if_canceled(run)

    def _act(self, run: RunRecord, act: Callable[[], Ticket]) -> None:
        try:
            job_id = act().job_id
            if job_id and job_id != run.job_id:
                self._runs.update(run.id, job_id=job_id)
        except EngineError as error:
            if self._clusters.is_at_home(run) and not isinstance(error, EngineSilent):
                self._fail(run.id, error)
            else:  # once the engine is back, `reconcile` finds the attempt lost and starts it
                self._runs.update(run.id, message=f"{NOT_STARTED} {error}")
        except RunyardError as error:
            self._fail(run.id, error)

    def _stopped_if_canceled(self, run: RunRecord) -> RunRecord:
        """Stop the run if it was canceled between the move and the start, when there was nothing to stop."""
        now = self._runs.get(run.id)
        if now.status is _S.CANCEL_REQUESTED or now.status.is_terminal:
            self._stopper.cancel(run)
        return now
