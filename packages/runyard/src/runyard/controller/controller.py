import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from runyard.controller.launching import Launching, Surroundings
from runyard.controller.outputs import GangOutputs
from runyard.controller.parts import Parts
from runyard.controller.queueing import Queues
from runyard.controller.recovery import Recovery
from runyard.controller.reports import Reports, wished_end
from runyard.controller.starting import Starting
from runyard.controller.stopping import Stopping
from runyard.controller.sweeps.filling import ChildMover, SweepSurroundings
from runyard.controller.sweeps.sweeps import Sweeps
from runyard.errors import Conflict, InvalidArgument, NotFound, RunyardError
from runyard.model.runs import AttemptId, RunId, RunRecord, RunStatus
from runyard.model.sweeps import SWEEP_TYPE
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock
from runyard.ports.stores import PartStore, RunStore
from runyard.services.places import UNMANAGED_TARGETS

_S = RunStatus
_WAITING = frozenset({_S.NOT_STARTED, _S.QUEUED})
_LOOK_SECONDS = 2.0
log = logging.getLogger(__name__)
QueueName = tuple[str, str]
"""A workspace, and the compute target there that runs wait for."""


class Controller:
    """Moves runs on: a `RunMover`. One thread acts on what it is woken for, and looks at everything now and then.

    Every step is a guarded move in the store followed by an act that can be repeated, so that a service
    killed anywhere goes on where it was. `look_around` is called with every look at everything.
    """

    def __init__(
        self,
        runs: RunStore,
        logs: LogStore,
        parts: PartStore,
        clock: Clock,
        around: Surroundings,
        sweeping: SweepSurroundings,
        look_around: Callable[[], None] = lambda: None,
    ) -> None:
        self._runs, self._places, self._look_around = runs, around.places, look_around
        self._stopping = Stopping(around.places, runs)
        gathered = Parts(parts, logs, self._stopping, clock)
        self._reports = Reports(runs, logs, around.places, gathered, GangOutputs(around.outputs), clock)
        launching = Launching(around)
        self._starting = Starting(
            runs, around.places, launching, self._stopping, clock, self._fail, self.wake, around.launched_from
        )
        mover = ChildMover(self._advance_all, self.cancel, self.wake)
        self._sweeps = Sweeps(runs, logs, clock, sweeping, mover)
        self._queues = Queues(
            runs,
            around.places,
            self._starting.start,
            self._reports.fail_for_user,
            self._failing,
            self._sweeps.let_children_start,
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
        self._woken.put(run_id)

    def cancel(self, run_id: RunId, *, end_as: RunStatus = _S.CANCELED) -> None:
        for _ in range(10):
            run = self._runs.get(run_id)
            if run.status.is_terminal:
                return
            if run.type == SWEEP_TYPE:
                with contextlib.suppress(Conflict):
                    self._call_off(run)
                    return
                continue
            is_waiting = run.status in _WAITING or (run.status is _S.PREPARING and not run.ticket)
            with contextlib.suppress(Conflict):
                if run.status is not _S.CANCEL_REQUESTED and not (is_waiting and end_as is _S.CANCELED):
                    run = self._runs.move(run, _S.CANCEL_REQUESTED, exit_facts=wished_end(run, end_as))
                if is_waiting:
                    self._cancel_waiting(run)
                else:
                    self._stopping.cancel(run)
                return

    def heard_end(self, run: RunRecord) -> None:
        """Of any run that has ended, from any thread: the sweep that it belongs to goes on."""
        self._sweeps.heard_end(run)

    def report(self, attempt_id: AttemptId, body: Mapping[str, Any]) -> Mapping[str, Any]:
        taken = self._reports.take(attempt_id, body)
        run, decision = taken.run, taken.decision
        if body.get("state") == "prepared" and (run.ticket, run.status) == (attempt_id, _S.PREPARING):
            self._starting.note_prepared(attempt_id, str(body.get("environment_key") or ""))
        if body.get("state") == "prepared" or run.status is _S.QUEUED:
            self.wake(run.id)
        elif body.get("state") == "ended" and run.status.is_terminal:
            # Others may wait for what it was to build, or for its nodes.
            self.wake(run.id)
            if run.nodes:
                self._wake_queue(run)
        is_unwanted = run.status is _S.CANCEL_REQUESTED or run.status.is_terminal or run.ticket != attempt_id
        return {
            "cancel": is_unwanted or decision.stop is not None,
            "end_as": "canceled" if is_unwanted else decision.stop or "canceled",
            "roster": decision.roster,
        }

    def _call_off(self, sweep: RunRecord) -> None:
        """Its children, of which there may be thousands, are canceled by our own thread."""
        if sweep.status is not _S.CANCEL_REQUESTED:
            self._runs.move(sweep, _S.CANCEL_REQUESTED, message="Its children are canceled.")
        self.wake(sweep.id)

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
                self._advance_all(
                    [one for one in woken if isinstance(one, str)], [one for one in woken if isinstance(one, tuple)]
                )
                if time.monotonic() >= next_look:
                    next_look = time.monotonic() + _LOOK_SECONDS
                    self.look()
                elif None in woken:
                    self._serve(_started_by_us(self._runs.unfinished()))
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
        if self._sweeps.look(unfinished):
            unfinished = self._runs.unfinished()
        started = _started_by_us(unfinished)
        self._stopping.cancel_untold(started)
        if self._recovery.look(started):
            started = _started_by_us(self._runs.unfinished())
        self._serve(started)
        self._look_around()

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
        self._advance_all(waiting)

    def advance(self, run_id: RunId) -> None:
        """Take the next step of a run that waits for one."""
        self._advance_all([run_id])

    def _advance_all(self, run_ids: Sequence[RunId], queues: Sequence[QueueName] = ()) -> None:
        """Those queues, and each that some of the runs come to, are served once."""
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
        if run.type == SWEEP_TYPE:
            self._sweeps.advance(run_id)
            return None
        if run.is_interactive or run.status not in (_S.NOT_STARTED, _S.PREPARING, _S.QUEUED):
            return None
        if run.parent_id is not None and not self._sweeps.let_children_start(run.parent_id):
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


def _started_by_us(unfinished: Sequence[RunRecord]) -> Sequence[RunRecord]:
    """Those with a process of ours, or to get one."""
    return [run for run in unfinished if not run.is_interactive and run.type != SWEEP_TYPE]
