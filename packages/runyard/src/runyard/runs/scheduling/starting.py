import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from runyard.compute.local.pool import nodes_of_its_own
from runyard.errors import Conflict, EngineError, EngineSilent, NotFound, RunyardError
from runyard.model.nodes import Gang
from runyard.model.runs import RunId, RunRecord, RunStatus, attempt_id
from runyard.ports.clock import Clock
from runyard.ports.engine import Ticket
from runyard.ports.stores import RunStore
from runyard.runs.kinds.registry import RunKinds
from runyard.runs.scheduling.herd import Herd
from runyard.runs.scheduling.launching import Launching
from runyard.runs.scheduling.places import UNMANAGED_TARGETS, Places
from runyard.runs.scheduling.stopping import Stopping

_S = RunStatus
_MOST_PREPARATIONS = 5
NOT_STARTED = "Not started yet."
"""Begins the message of a run whose engine would not take it, with the reason after it."""
Fail = Callable[[RunId, RunyardError], None]


class Starting:
    """Takes a run from its submit to its supervisors: each step a guarded move, then an act that can be repeated."""

    def __init__(
        self,
        runs: RunStore,
        places: Places,
        kinds: RunKinds,
        launching: Launching,
        stopping: Stopping,
        clock: Clock,
        fail: Fail,
        wake: Callable[[RunId], None],
        launched_from: str | None = None,
    ) -> None:
        self._runs, self._places, self._kinds, self._launching = runs, places, kinds, launching
        self._stopping, self._clock, self._fail, self._wake = stopping, clock, fail, wake
        self._launched_from = launched_from
        self._prepared: dict[str, str] = {}
        self._herd = Herd(runs)

    def begin(self, run: RunRecord) -> RunRecord:
        return self._queue_or_start(run) if self._launching.has_environment(run) else self._prepare_or_wait(run)

    def prepare(self, run: RunRecord) -> RunRecord:
        self._act(run, lambda: self._launching.prepare(run))
        return self._stopped_if_wished(run)

    def may_prepare_again(self, run: RunRecord) -> bool:
        return run.attempt < _MOST_PREPARATIONS

    def prepare_elsewhere(self, run: RunRecord) -> RunRecord:
        """The node that built the environment is gone. Nothing of the run has begun, so another may do it."""
        number = run.attempt + 1
        return self.prepare(self._runs.update(run.id, **self._attempt(run, number)))

    def note_prepared(self, attempt: str, key: str) -> None:
        """A node has told that the environment stands, and its key: nobody needs to look for it again."""
        self._prepared[attempt] = key

    def after_preparation(self, run: RunRecord) -> RunRecord:
        """Also for a run that waits for another's build."""
        key = self._prepared.pop(run.ticket, None) if run.ticket else None
        if key is not None:
            self._launching.note_built(run, key)
        if key is not None or self._launching.has_environment(run):
            self._release_herd(run)
            return self._queue_or_start(run)
        return run if run.ticket else self._prepare_or_wait(run)

    def waiting_for(self, run_id: RunId) -> Sequence[RunId]:
        """The runs that wait for what that one was to build."""
        return self._herd.waiting_for(run_id)

    def forget_build(self, run_id: RunId) -> None:
        """The run has ended, and nobody waits for it any more."""
        self._herd.done(run_id)

    def start_unmanaged(self, run: RunRecord) -> RunRecord:
        """Start a run that has no cluster to wait for."""
        alone = run.definition.node_count == 1
        return self.start(run, Gang() if alone else Gang(nodes_of_its_own(run, self._clock.now())))

    def start(self, run: RunRecord, gang: Gang) -> RunRecord:
        number = run.attempt + 1
        names = tuple(node.name for node in gang.nodes)
        run = self._runs.move(run, _S.STARTING, **self._attempt(run, number), nodes=names, message="Starting.")
        return self._launch(run, gang)

    def hand_over(self, run: RunRecord) -> RunRecord:
        """Submit to an engine that has a queue. The run stays Queued until its supervisor reports."""
        gang = self._places.unplaced(run, run.definition.node_count)
        names = tuple(node.name for node in gang.nodes)
        attempt = self._attempt(run, run.attempt + 1)
        run = self._runs.move(run, _S.QUEUED, **attempt, nodes=names, message=f"In the queue of '{run.target}'.")
        return self._launch(run, gang)

    def start_again(self, run: RunRecord) -> RunRecord:
        """For an attempt of which the engine knows nothing yet, or not all."""
        if run.target in UNMANAGED_TARGETS:
            return self._launch(run, Gang(nodes_of_its_own(run, self._clock.now())) if len(run.nodes) > 1 else Gang())
        return self._launch(run, self._places.held_by(run))

    def _prepare_or_wait(self, run: RunRecord) -> RunRecord:
        """One of the runs that want the same environment builds it."""
        what = self._launching.build_of(run)
        self._herd.require_hope(run.id)
        builder = self._herd.builder(what, run.id)
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
        is_news = any(getattr(run, name) != value for name, value in changes.items())
        return self._runs.update(run.id, **changes) if is_news else run

    def _release_herd(self, run: RunRecord) -> None:
        """What the run has built serves all who waited. They are let go together, and then started one by one."""
        for run_id in self._herd.done(run.id):
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

    def _launch(self, run: RunRecord, gang: Gang) -> RunRecord:
        self._act(run, lambda: self._launching.launch(run, gang))
        return self._stopped_if_wished(run)

    def _act(self, run: RunRecord, act: Callable[[], Ticket]) -> None:
        try:
            job_id = act().job_id
            if job_id and job_id != run.job_id:
                self._runs.update(run.id, job_id=job_id)
        except EngineError as error:
            if self._places.is_at_home(run) and not isinstance(error, EngineSilent):
                self._fail(run.id, error)
            else:  # the engine comes back: the next look finds the attempt lost and starts it
                self._runs.update(run.id, message=f"{NOT_STARTED} {error}")
        except RunyardError as error:
            self._fail(run.id, error)

    def _stopped_if_wished(self, run: RunRecord) -> RunRecord:
        """A cancel that came between our move and the start found nothing to stop."""
        now = self._runs.get(run.id)
        if now.status is _S.CANCEL_REQUESTED or now.status.is_terminal:
            self._stopping.cancel(run)
        return now
