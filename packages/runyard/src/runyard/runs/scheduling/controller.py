import contextlib
import logging
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta

from runyard.core.definitions.report import NodeReport, ReportAnswer
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.errors import Conflict, InvalidArgument, NotFound, RunyardError
from runyard.model.runs import AttemptId, RunId, RunRecord, RunStatus
from runyard.ports.stores import PartStore
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.registry import load_kinds
from runyard.runs.scheduling.launching import Launching, Surroundings
from runyard.runs.scheduling.outputs import GangOutputs
from runyard.runs.scheduling.parts import Parts
from runyard.runs.scheduling.places import UNMANAGED_TARGETS
from runyard.runs.scheduling.queueing import Queues
from runyard.runs.scheduling.recovery import Recovery
from runyard.runs.scheduling.reports import Reports, wished_end
from runyard.runs.scheduling.starting import Starting
from runyard.runs.scheduling.stopping import Stopping
from runyard.services.access import Access

_S = RunStatus
_WAITING = frozenset({_S.NOT_STARTED, _S.QUEUED})
_LOOK_SECONDS = 2.0
log = logging.getLogger(__name__)
QueueName = tuple[str, str]
"""A workspace, and the compute target there that runs wait for."""


class Controller:
    """Moves runs on, each as its kind says. One thread acts on what it is woken for, and looks at everything now and
    then.

    Every step is a guarded move in the store followed by an act that can be repeated, so that a service killed
    anywhere goes on where it was. `wake`, `cancel` and `report` return promptly and may be called from any thread,
    and twice; `look`, the `advance` methods and `start_next` belong to the controller's thread.
    """

    def __init__(self, tools: KindTools, parts: PartStore, around: Surroundings, access: Access) -> None:
        self._access = access
        runs, logs, clock = tools.runs, tools.logs, tools.clock
        self._runs, self._places = runs, around.places
        tools.controller = self
        self.kinds = load_kinds(tools)
        self.launching = Launching(around)
        self._stopping = Stopping(around.places, runs)
        gathered = Parts(parts, logs, self._stopping, clock)
        self._reports = Reports(runs, logs, around.places, gathered, GangOutputs(around.outputs), clock)
        self._starting = Starting(
            runs,
            around.places,
            self.kinds,
            self.launching,
            self._stopping,
            clock,
            self._fail,
            self.wake,
            around.launched_from,
        )
        self._queues = Queues(
            runs,
            around.places,
            self._starting.start,
            self._starting.hand_over,
            self._reports.fail_for_user,
            self._failing,
            self.kinds,
        )
        self._recovery = Recovery(
            runs, around.places, gathered, self._starting, self._reports, self.advance, around.launched_from
        )
        self._woken: queue.SimpleQueue[RunId | QueueName | None] = queue.SimpleQueue()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, name="controller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Runs go on; nothing is moved on any more."""
        self._is_stopping = True
        self._woken.put(None)
        self._thread.join()

    def fail_unfinished(self, why: str) -> int:
        """Fail all runs that have not ended, children before their parents; how many. Before `start`."""
        unfinished = sorted(self._runs.unfinished(), key=lambda run: run.parent_id is None)
        for run in unfinished:
            self._reports.fail(run.id, "ServiceError", why)
        return len(unfinished)

    def wake(self, run_id: RunId | None = None) -> None:
        """Look at this run now, or at everything: it was submitted, or a cluster changed."""
        self._woken.put(run_id)

    def cancel(self, run_id: RunId, *, end_as: RunStatus = _S.CANCELED) -> None:
        """Begin to stop a run as its kind does; quiet when it has ended.

        Once its processes are gone and what they wrote is stored it shows `end_as`; the first to ask decides. One that
        has children shows Canceled, once all of them have ended.
        """
        for _ in range(10):
            run = self._runs.get(run_id)
            if run.status.is_terminal:
                return
            with contextlib.suppress(Conflict):
                self.kinds.of(run).cancel(run, end_as=end_as)
                return

    def cancel_attempt(self, run: RunRecord, *, end_as: RunStatus) -> None:
        """Begin to stop the processes of a run, or end it where it has none yet. Raises Conflict."""
        # Without a ticket nothing of it runs. So it is too with runs of a kind whose package was removed.
        is_waiting = (run.status in _WAITING and not run.is_handed_over) or not run.ticket
        if run.status is not _S.CANCEL_REQUESTED and not (is_waiting and end_as is _S.CANCELED):
            run = self._runs.move(run, _S.CANCEL_REQUESTED, exit_facts=wished_end(run, end_as))
        if is_waiting:
            self._cancel_waiting(run)
        else:
            self._stopping.cancel(run)

    def report(self, who: Principal, attempt_id: AttemptId, report: NodeReport) -> ReportAnswer:
        """Take a supervisor's report in. Raises NotFound for an unknown attempt."""
        self._access.attempt(who, Action.REPORT_ATTEMPT, attempt_id)
        taken = self._reports.take(attempt_id, report)
        run, decision = taken.run, taken.decision
        if report.state == "prepared" and (run.ticket, run.status) == (attempt_id, _S.PREPARING):
            self._starting.note_prepared(attempt_id, report.environment_key)
        if report.state == "prepared" or run.status is _S.QUEUED:
            self.wake(run.id)
        elif report.state == "ended" and run.status.is_terminal:
            # Others may wait for what it was to build, or for its nodes.
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
        """Nothing of it runs. If it is being started this very moment, its supervisor hears with its first report."""
        ended = self._reports.cancel(run.id)
        if ended.ticket:
            self._stopping.cancel(ended, grace=timedelta(0))
        self._wake_queue(ended)

    def _wake_queue(self, run: RunRecord) -> None:
        """Have those looked at that wait where the run is, or was."""
        if run.target not in UNMANAGED_TARGETS:
            self._woken.put((run.workspace, run.target))

    def _work(self) -> None:
        next_look = time.monotonic()
        while not self._is_stopping:
            woken = self._next_woken(next_look - time.monotonic())
            if self._is_stopping:
                return
            try:
                self.advance_all(
                    [one for one in woken if isinstance(one, str)], [one for one in woken if isinstance(one, tuple)]
                )
                if time.monotonic() >= next_look:
                    next_look = time.monotonic() + _LOOK_SECONDS
                    self.look()
                elif None in woken:
                    self._serve(self._with_process(self._runs.unfinished()))
            except Exception:  # this thread must live on
                log.exception("Moving runs on failed; the next pass tries again.")

    def _next_woken(self, seconds: float) -> Sequence[RunId | QueueName | None]:
        """All that somebody waits for, each once; none when that many seconds have passed."""
        woken: dict[RunId | QueueName | None, None] = {}
        with contextlib.suppress(queue.Empty):
            woken[self._woken.get(timeout=max(0.0, seconds))] = None
            while True:
                woken[self._woken.get_nowait()] = None
        return list(woken)

    def look(self) -> None:
        """Look at every unfinished run and every cluster."""
        unfinished = self._runs.unfinished()
        if self.kinds.look(unfinished):
            unfinished = self._runs.unfinished()
        started = self._with_process(unfinished)
        self._stopping.cancel_untold(started)
        if self._recovery.look(started):
            started = self._with_process(self._runs.unfinished())
        self._serve(started)

    def _with_process(self, unfinished: Sequence[RunRecord]) -> Sequence[RunRecord]:
        """Those with a process of ours, or to get one."""
        return [run for run in unfinished if self.kinds.of(run).has_process]

    def _serve(self, unfinished: Sequence[RunRecord]) -> None:
        """Have waiting runs go on, and clusters the nodes that they should have."""
        self._places.resize({run.id for run in unfinished})
        waiting: list[RunId] = []
        served: set[tuple[str, str]] = set()
        for run in unfinished:
            has_queue = run.status is _S.QUEUED and run.target not in UNMANAGED_TARGETS
            waits_for_build = run.status is _S.PREPARING and not run.ticket
            if not (run.status in _WAITING or waits_for_build) or (has_queue and (run.workspace, run.target) in served):
                continue
            waiting.append(run.id)
            if has_queue:  # all that wait for the cluster are looked at with the first
                served.add((run.workspace, run.target))
        self.advance_all(waiting)

    def advance(self, run_id: RunId) -> None:
        """Take the next step of a run that waits for one."""
        self.advance_all([run_id])

    def advance_all(self, run_ids: Sequence[RunId], queues: Sequence[QueueName] = ()) -> None:
        """Take the next step of each. Those queues, and each that some of the runs come to, are served once."""
        to_serve = dict.fromkeys(queues)
        for run_id in run_ids:
            with self._failing(run_id):
                run = self._begun(run_id)
                if run is not None and run.status is _S.QUEUED:
                    to_serve[run.workspace, run.target] = None
        for workspace, target in to_serve:
            self._queues.serve(workspace, target)

    def _begun(self, run_id: RunId) -> RunRecord | None:
        """The run after all steps but that of waiting for nodes; None where there are none to take."""
        run = self._runs.get(run_id)
        if run.status.is_terminal:
            self._end_waiting_for(run_id)
            return None
        return self.kinds.of(run).advance(run)

    def start_next(self, run: RunRecord) -> RunRecord | None:
        """The next step of a run that has a process, up to its start; None where there is none to take."""
        if run.status not in (_S.NOT_STARTED, _S.PREPARING, _S.QUEUED):
            return None
        if run.parent_id is not None and not self.kinds.let_start(run.parent_id):
            return None
        if run.status is _S.NOT_STARTED:
            run = self._starting.begin(run)
        elif run.status is _S.PREPARING:
            run = self._starting.after_preparation(run)
        if run.status is _S.QUEUED and run.target in UNMANAGED_TARGETS:
            run = self._starting.start_unmanaged(run)
        return run

    @contextlib.contextmanager
    def _failing(self, run_id: RunId) -> Iterator[None]:
        """What goes wrong with the run is its end; a fault of ours is met again at the next look."""
        try:
            yield
        except (Conflict, NotFound):
            return  # somebody else moved it, or it was deleted; whoever did wakes us where that matters
        except RunyardError as e:
            self._fail(run_id, e)
        except Exception:  # the other runs go on
            log.exception("Moving the run on failed; the next pass tries again.", extra={"run": run_id})

    def _end_waiting_for(self, run_id: RunId) -> None:
        """The run has ended: who waited for what it was to build fails with it, or one of them builds it."""
        for waiting in self._starting.waiting_for(run_id):
            self.advance(waiting)
        self._starting.forget_build(run_id)

    def _fail(self, run_id: RunId, error: RunyardError) -> None:
        code = "UserError" if isinstance(error, InvalidArgument) or error.status < 500 else "ServiceError"
        with contextlib.suppress(NotFound):
            self._reports.fail(run_id, code, str(error), **error.facts)
        self.wake()
