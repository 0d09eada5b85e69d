import contextlib
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from runyard.controller.clusters import Clusters, Gang
from runyard.controller.launching import Launching, Surroundings, attempt_id
from runyard.controller.lost import LostAttempts
from runyard.controller.reports import Reports, wished_end
from runyard.errors import Conflict, InvalidArgument, NotFound, RunyardError
from runyard.model.runs import AttemptId, RunId, RunRecord, RunStatus
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock
from runyard.ports.engine import Ticket
from runyard.ports.stores import NodeStore, RunStore

_S = RunStatus
_SWEEP_SECONDS = 2.0
_UNMANAGED_TARGETS = frozenset({"local", "amlcompute"})
_DEFAULT_GRACE_SECONDS = 10.0


class Controller:
    """Moves runs on: a `RunMover`. One thread acts on what it is woken for, and looks at everything now and then.

    Every step is a guarded move in the store followed by an act that can be repeated, so that a service
    killed anywhere goes on where it was. `look_around` is called with every look at everything.
    """

    def __init__(
        self,
        runs: RunStore,
        logs: LogStore,
        nodes: NodeStore,
        clock: Clock,
        around: Surroundings,
        look_around: Callable[[], None] = lambda: None,
    ) -> None:
        self._runs, self._engine, self._look_around = runs, around.engine, look_around
        self._launching = Launching(around)
        self._clusters = Clusters(around.assets, nodes, clock)
        self._reports = Reports(runs, logs, nodes, clock)
        self._lost = LostAttempts(around.engine)
        self._woken: queue.SimpleQueue[RunId | None] = queue.SimpleQueue()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, name="controller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Runs go on; nothing is moved on any more."""
        self._is_stopping = True
        self._woken.put(None)
        self._thread.join()

    def wake(self, run_id: RunId | None = None) -> None:
        self._woken.put(run_id)

    def cancel(self, run_id: RunId, *, end_as: RunStatus = _S.CANCELED) -> None:
        for _ in range(10):
            run = self._runs.get(run_id)
            if run.status.is_terminal:
                return
            is_waiting = run.status in (_S.NOT_STARTED, _S.QUEUED)
            with contextlib.suppress(Conflict):
                if run.status is not _S.CANCEL_REQUESTED and not (is_waiting and end_as is _S.CANCELED):
                    run = self._runs.move(run, _S.CANCEL_REQUESTED, exit_facts=wished_end(end_as))
                if is_waiting:
                    self._cancel_waiting(run)
                else:
                    self._engine.cancel(Ticket(run.ticket), grace=_grace(run))
                return

    def report(self, attempt_id: AttemptId, body: Mapping[str, Any]) -> Mapping[str, Any]:
        run = self._reports.take(attempt_id, body)
        if body.get("state") == "prepared":
            self.wake(run.id)
        elif body.get("state") == "ended" and run.nodes:
            self.wake()  # others may wait for its nodes
        return {"cancel": run.status is _S.CANCEL_REQUESTED or run.status.is_terminal or run.ticket != attempt_id}

    def _cancel_waiting(self, run: RunRecord) -> None:
        """Nothing of it runs. If it is being started this very moment, its supervisor hears with its first report."""
        ended = self._reports.cancel(run.id)
        if ended.ticket:
            self._engine.cancel(Ticket(ended.ticket), grace=timedelta(0))
        self.wake()

    def _work(self) -> None:
        while not self._is_stopping:
            try:
                run_id = self._woken.get(timeout=_SWEEP_SECONDS)
            except queue.Empty:
                run_id = None
            if self._is_stopping:
                return
            try:
                if run_id is None:
                    self.sweep()
                else:
                    self.advance(run_id)
            except Exception:  # this thread must live on: the next sweep tries again
                traceback.print_exc(file=sys.stderr)

    def sweep(self) -> None:
        """Look at every unfinished run and every cluster."""
        unfinished = [run for run in self._runs.unfinished() if not run.is_interactive]
        for run in self._lost.among(unfinished):
            self._carry_on_lost(run)
        self._clusters.resize(unfinished)
        for run in unfinished:
            if run.status in (_S.NOT_STARTED, _S.QUEUED):
                self.advance(run.id)
        self._look_around()

    def advance(self, run_id: RunId) -> None:
        """Take the next step of a run that waits for one."""
        try:
            run = self._runs.get(run_id)
            if run.is_interactive or run.status not in (_S.NOT_STARTED, _S.PREPARING, _S.QUEUED):
                return
            if run.status is _S.NOT_STARTED:
                run = self._begin(run)
            elif run.status is _S.PREPARING:
                run = self._after_preparation(run)
            if run.status is _S.QUEUED:
                self._serve_queue(run)
        except (Conflict, NotFound):
            return  # somebody else moved it, or it was deleted; whoever did wakes us where that matters
        except RunyardError as e:
            self._fail(run_id, e)

    def _begin(self, run: RunRecord) -> RunRecord:
        if not self._launching.has_environment(run):
            number = run.attempt + 1
            run = self._runs.move(
                run,
                _S.PREPARING,
                attempt=number,
                ticket=attempt_id(run.id, number),
                message="Preparing the environment.",
            )
            self._launching.prepare(run)
            return self._cancel_if_wished(run)
        return self._queue_or_start(run)

    def _after_preparation(self, run: RunRecord) -> RunRecord:
        return self._queue_or_start(run) if self._launching.has_environment(run) else run

    def _queue_or_start(self, run: RunRecord) -> RunRecord:
        if run.target in _UNMANAGED_TARGETS:
            return self._start(run, Gang())
        return self._runs.move(run, _S.QUEUED, message=f"Waiting for nodes of '{run.target}'.")

    def _serve_queue(self, run: RunRecord) -> None:
        """First come, first served: a run takes its nodes only when all before it on the cluster have theirs."""
        for waiting in self._runs.unfinished():
            if (waiting.workspace, waiting.target, waiting.status) != (run.workspace, run.target, _S.QUEUED):
                continue
            gang = self._clusters.hold(waiting)
            if not gang.nodes:
                self._say(waiting, gang.waits_for)
                if not self._clusters.exists(waiting):
                    self._reports.fail(
                        waiting.id, "UserError", f"There is no compute target '{waiting.target}' any more."
                    )
                    continue
                break
            self._start(waiting, gang)
        self._tell_the_rest(run)

    def _tell_the_rest(self, run: RunRecord) -> None:
        """Those behind the first in the queue wait for it as much as for nodes."""
        ahead: list[RunId] = []
        for waiting in self._runs.unfinished():
            if (waiting.workspace, waiting.target, waiting.status) == (run.workspace, run.target, _S.QUEUED):
                if ahead:
                    self._say(waiting, f"Waiting for nodes of '{run.target}' behind run {ahead[-1]}.")
                ahead.append(waiting.id)

    def _say(self, run: RunRecord, message: str) -> None:
        if run.message != message:
            self._runs.update(run.id, message=message)

    def _start(self, run: RunRecord, gang: Gang) -> RunRecord:
        number = run.attempt + 1
        names = tuple(node.name for node in gang.nodes)
        run = self._runs.move(
            run, _S.STARTING, attempt=number, ticket=attempt_id(run.id, number), nodes=names, message="Starting."
        )
        try:
            self._launching.launch(run, gang.nodes, gang.most_nodes)
        except RunyardError as e:
            self._fail(run.id, e)
            return self._runs.get(run.id)
        return self._cancel_if_wished(run)

    def _cancel_if_wished(self, run: RunRecord) -> RunRecord:
        """A cancel that came between our move and the start found nothing to stop."""
        now = self._runs.get(run.id)
        if now.status is _S.CANCEL_REQUESTED or now.status.is_terminal:
            self._engine.cancel(Ticket(run.ticket), grace=_grace(run))
        return now

    def _carry_on_lost(self, lost: RunRecord) -> None:
        """No supervisor looks after this run: start it again where that is safe, else have it brought to an end."""
        try:
            run = self._runs.get(lost.id)
            if run.version != lost.version:
                return
            if self._lost.is_beyond_help(run):
                self._end_lost(run)
            elif run.status is _S.PREPARING and self._launching.has_environment(run):
                self.advance(run.id)
            elif run.status is _S.PREPARING:
                self._launching.prepare(run)
            elif run.status is _S.STARTING:
                gang = self._clusters.held_by(run)
                self._launching.launch(run, gang.nodes, gang.most_nodes)
            else:
                self._engine.recover(Ticket(run.ticket), 0)
        except (Conflict, NotFound):
            return
        except RunyardError as e:
            self._fail(lost.id, e)

    def _end_lost(self, run: RunRecord) -> None:
        if run.status is _S.CANCEL_REQUESTED:
            self._reports.cancel(run.id)
        else:
            self._reports.fail(run.id, "ServiceError", "The run's processes and its folder on the node are gone.")
        self.wake()

    def _fail(self, run_id: RunId, error: RunyardError) -> None:
        code = "UserError" if isinstance(error, InvalidArgument) or error.status < 500 else "ServiceError"
        with contextlib.suppress(NotFound):
            self._reports.fail(run_id, code, str(error))
        self.wake()


def _grace(run: RunRecord) -> timedelta:
    given = (run.definition.get("runyard") or {}).get("cancel_grace_seconds")
    return timedelta(seconds=_DEFAULT_GRACE_SECONDS if given is None else float(given))
