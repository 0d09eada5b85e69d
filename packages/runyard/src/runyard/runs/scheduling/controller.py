import contextlib
import logging
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta

from runyard.access.authorization import Access
from runyard.compute.clusters import UNMANAGED_TARGETS
from runyard.core.definitions.node_report import NodeReport, ReportAnswer
from runyard.core.errors import Conflict, InvalidArgument, NotFound, RunyardError
from runyard.core.policy import Action
from runyard.core.ports.stores import NodeTaskStore
from runyard.core.principal import Principal
from runyard.core.records.runs import AttemptId, RunId, RunRecord, RunStatus
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.registry import load_kinds
from runyard.runs.scheduling.attempt_tasks import AttemptStopper, AttemptTasks
from runyard.runs.scheduling.launcher import LaunchDependencies, Launcher
from runyard.runs.scheduling.queues import RunQueues
from runyard.runs.scheduling.recovery import Recovery
from runyard.runs.scheduling.reports import MultiNodeOutputs, ReportHandler, requested_end
from runyard.runs.scheduling.run_starter import RunStarter

_S = RunStatus
_WAITING = frozenset({_S.NOT_STARTED, _S.QUEUED})
_RECONCILE_SECONDS = 2.0
log = logging.getLogger(__name__)
QueueKey = tuple[str, str]
"""Workspace and compute target of a queue."""


class RunController:
    """Advances runs by the rules of their kinds, in one thread: those it is woken for at once, all others every
    `_RECONCILE_SECONDS`.

    Each step is a guarded move in the store, then an act that is safe to repeat, so a service that was killed goes on
    where it stopped. `wake`, `cancel` and `report` return at once; any thread may call them, and repeat the call.
    `reconcile`, the `advance` methods and `start_next` belong to the controller's thread.
    """

    def __init__(
        self, tools: KindTools, parts: NodeTaskStore, dependencies: LaunchDependencies, access: Access
    ) -> None:
        self._access = access
        runs, logs, clock = tools.runs, tools.logs, tools.clock
        self._runs, self._clusters = runs, dependencies.clusters
        tools.controller = self
        self.kinds = load_kinds(tools)
        self.launcher = Launcher(dependencies)
        self._stopper = AttemptStopper(dependencies.clusters, runs)
        tasks = AttemptTasks(parts, logs, self._stopper, clock)
        self._reports = ReportHandler(
            runs, logs, dependencies.clusters, tasks, MultiNodeOutputs(dependencies.outputs), clock
        )
        self._starter = RunStarter(
            runs,
            dependencies.clusters,
            self.kinds,
            self.launcher,
            self._stopper,
            clock,
            self._fail,
            self.wake,
            dependencies.launched_from,
        )
        self._queues = RunQueues(
            runs,
            dependencies.clusters,
            self._starter.start,
            self._starter.hand_over,
            self._reports.fail_for_user,
            self._failing_run,
            self.kinds,
        )
        self._recovery = Recovery(
            runs, dependencies.clusters, tasks, self._starter, self._reports, self.advance, dependencies.launched_from
        )
        self._woken: queue.SimpleQueue[RunId | QueueKey | None] = queue.SimpleQueue()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, name="controller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. Processes of runs go on."""
        self._is_stopping = True
        self._woken.put(None)
        self._thread.join()

    def fail_unfinished(self, why: str) -> int:
        """Fail all unfinished runs, children before their parents; return how many. Call it before `start`."""
        unfinished = sorted(self._runs.unfinished(), key=lambda run: run.parent_id is None)
        for run in unfinished:
            self._reports.fail(run.id, "ServiceError", why)
        return len(unfinished)

    def wake(self, run_id: RunId | None = None) -> None:
        """Take the next step of this run now, or with None of all waiting runs."""
        self._woken.put(run_id)

    def cancel(self, run_id: RunId, *, end_as: RunStatus = _S.CANCELED) -> None:
        """Begin to stop a run; does nothing if it has ended.

        It shows `end_as` once its processes are gone and their output is stored; the first request decides. A run
        whose kind has children shows Canceled once all of them have ended.
        """
        for _ in range(10):
            run = self._runs.get(run_id)
            if run.status.is_terminal:
                return
            with contextlib.suppress(Conflict):
                self.kinds.of(run).cancel(run, end_as=end_as)
                return

    def cancel_attempt(self, run: RunRecord, *, end_as: RunStatus) -> None:
        """Begin to stop the processes of a run, or end it if it has none. Raises Conflict."""
        # A run without a ticket has no process, nor has one of a kind whose package was removed.
        is_waiting = (run.status in _WAITING and not run.is_handed_over) or not run.ticket
        if run.status is not _S.CANCEL_REQUESTED and not (is_waiting and end_as is _S.CANCELED):
            run = self._runs.move(run, _S.CANCEL_REQUESTED, exit_facts=requested_end(run, end_as))
        if is_waiting:
            self._cancel_waiting(run)
        else:
            self._stopper.cancel(run)

    def report(self, who: Principal, attempt_id: AttemptId, report: NodeReport) -> ReportAnswer:
        """Apply a supervisor's report. Raises NotFound for an unknown attempt."""
        self._access.attempt(who, Action.REPORT_ATTEMPT, attempt_id)
        handled = self._reports.take(attempt_id, report)
        run, decision = handled.run, handled.decision
        if report.state == "prepared" and (run.ticket, run.status) == (attempt_id, _S.PREPARING):
            self._starter.note_prepared(attempt_id, report.environment_key)
        if report.state == "prepared" or run.status is _S.QUEUED:
            self.wake(run.id)
        elif report.state == "ended" and run.status.is_terminal:
            # Other runs may wait for its build or its nodes.
            self.wake(run.id)
            if run.nodes:
                self._wake_queue(run)
        is_unwanted = run.status is _S.CANCEL_REQUESTED or run.status.is_terminal or run.ticket != attempt_id
        return ReportAnswer(
            cancel=is_unwanted or decision.stop is not None,
            end_as="canceled" if is_unwanted else decision.stop or "canceled",
            roster=decision.roster,
        )

    def _cancel_waiting(self, run: RunRecord) -> None:
        """End a run without processes. If it is just being started, its supervisor is told with its first report."""
        ended = self._reports.cancel(run.id)
        if ended.ticket:
            self._stopper.cancel(ended, grace=timedelta(0))
        self._wake_queue(ended)

    def _wake_queue(self, run: RunRecord) -> None:
        """Serve the queue of the run's compute target soon."""
        if run.target not in UNMANAGED_TARGETS:
            self._woken.put((run.workspace, run.target))

    def _work(self) -> None:
        next_reconcile = time.monotonic()
        while not self._is_stopping:
            woken = self._next_woken(next_reconcile - time.monotonic())
            if self._is_stopping:
                return
            try:
                self.advance_all(
                    [one for one in woken if isinstance(one, str)], [one for one in woken if isinstance(one, tuple)]
                )
                if time.monotonic() >= next_reconcile:
                    next_reconcile = time.monotonic() + _RECONCILE_SECONDS
                    self.reconcile()
                elif None in woken:
                    self._serve(self._with_process(self._runs.unfinished()))
            except Exception:  # the only thread that advances runs must not end
                log.exception("Moving runs on failed; the next pass tries again.")

    def _next_woken(self, seconds: float) -> Sequence[RunId | QueueKey | None]:
        """Wait for wakes, at most that many seconds; return each once."""
        woken: dict[RunId | QueueKey | None, None] = {}
        with contextlib.suppress(queue.Empty):
            woken[self._woken.get(timeout=max(0.0, seconds))] = None
            while True:
                woken[self._woken.get_nowait()] = None
        return list(woken)

    def reconcile(self) -> None:
        """Bring all unfinished runs and clusters in line with what is stored and observed."""
        unfinished = self._runs.unfinished()
        if self.kinds.reconcile(unfinished):
            unfinished = self._runs.unfinished()
        started = self._with_process(unfinished)
        self._stopper.cancel_pending(started)
        if self._recovery.reconcile(started):
            started = self._with_process(self._runs.unfinished())
        self._serve(started)

    def _with_process(self, unfinished: Sequence[RunRecord]) -> Sequence[RunRecord]:
        """Runs whose kind has processes."""
        return [run for run in unfinished if self.kinds.of(run).has_process]

    def _serve(self, unfinished: Sequence[RunRecord]) -> None:
        """Resize clusters and advance waiting runs."""
        self._clusters.resize({run.id for run in unfinished})
        waiting: list[RunId] = []
        served: set[tuple[str, str]] = set()
        for run in unfinished:
            has_queue = run.status is _S.QUEUED and run.target not in UNMANAGED_TARGETS
            waits_for_build = run.status is _S.PREPARING and not run.ticket
            if not (run.status in _WAITING or waits_for_build) or (has_queue and (run.workspace, run.target) in served):
                continue
            waiting.append(run.id)
            if has_queue:  # the first run stands for the whole queue
                served.add((run.workspace, run.target))
        self.advance_all(waiting)

    def advance(self, run_id: RunId) -> None:
        """Take the next step of a run that waits for one."""
        self.advance_all([run_id])

    def advance_all(self, run_ids: Sequence[RunId], queues: Sequence[QueueKey] = ()) -> None:
        """Take the next step of each run; then serve the given queues and those that the runs are in, each once."""
        to_serve = dict.fromkeys(queues)
        for run_id in run_ids:
            with self._failing_run(run_id):
                run = self._begun(run_id)
                if run is not None and run.status is _S.QUEUED:
                    to_serve[run.workspace, run.target] = None
        for workspace, target in to_serve:
            self._queues.serve(workspace, target)

    def _begun(self, run_id: RunId) -> RunRecord | None:
        """Take all steps up to waiting for nodes; None if there was none to take."""
        run = self._runs.get(run_id)
        if run.status.is_terminal:
            self._end_waiting_for(run_id)
            return None
        return self.kinds.of(run).advance(run)

    def start_next(self, run: RunRecord) -> RunRecord | None:
        """Take the next step of a run with processes, up to its start; None if there is none."""
        if run.status not in (_S.NOT_STARTED, _S.PREPARING, _S.QUEUED):
            return None
        if run.parent_id is not None and not self.kinds.let_start(run.parent_id):
            return None
        if run.status is _S.NOT_STARTED:
            run = self._starter.begin(run)
        elif run.status is _S.PREPARING:
            run = self._starter.after_preparation(run)
        if run.status is _S.QUEUED and run.target in UNMANAGED_TARGETS:
            run = self._starter.start_unmanaged(run)
        return run

    @contextlib.contextmanager
    def _failing_run(self, run_id: RunId) -> Iterator[None]:
        """A RunyardError fails the run; any other exception is logged and retried on the next pass."""
        try:
            yield
        except (Conflict, NotFound):
            return  # moved or deleted by another thread, which wakes us if needed
        except RunyardError as e:
            self._fail(run_id, e)
        except Exception:  # must not stop the other runs
            log.exception("Moving the run on failed; the next pass tries again.", extra={"run": run_id})

    def _end_waiting_for(self, run_id: RunId) -> None:
        """Advance the runs that waited for the build of an ended run: they fail too, or one of them builds."""
        for waiting in self._starter.waiting_for(run_id):
            self.advance(waiting)
        self._starter.forget_build(run_id)

    def _fail(self, run_id: RunId, error: RunyardError) -> None:
        code = "UserError" if isinstance(error, InvalidArgument) or error.status < 500 else "ServiceError"
        with contextlib.suppress(NotFound):
            self._reports.fail(run_id, code, str(error), **error.facts)
        self.wake()
