from collections.abc import Callable

from runyard.controller.launching import Launching
from runyard.controller.stopping import Stopping
from runyard.engines.local_pool import nodes_of_its_own
from runyard.errors import EngineError, RunyardError
from runyard.model.nodes import Gang
from runyard.model.runs import RunId, RunRecord, RunStatus, attempt_id
from runyard.planning.distribution import node_count_of
from runyard.planning.image import is_build, is_forced_build
from runyard.ports.clock import Clock
from runyard.ports.stores import RunStore
from runyard.services.builds import ENVIRONMENT_FACTS
from runyard.services.places import UNMANAGED_TARGETS, Places

_S = RunStatus
_MOST_PREPARATIONS = 5
NOT_STARTED = "Not started yet."
"""Begins the message of a run whose engine would not take it, with the reason after it."""
Fail = Callable[[RunId, RunyardError], None]


class Starting:
    """Takes a run from its submit to its supervisors: each step a guarded move, then an act that can be repeated."""

    def __init__(
        self, runs: RunStore, places: Places, launching: Launching, stopping: Stopping, clock: Clock, fail: Fail
    ) -> None:
        self._runs, self._places, self._launching = runs, places, launching
        self._stopping, self._clock, self._fail = stopping, clock, fail
        self._prepared: set[str] = set()

    def begin(self, run: RunRecord) -> RunRecord:
        if is_forced_build(run.definition):
            self._launching.forget_built(run)
        if self._launching.has_environment(run):
            return self._queue_or_start(run)
        number = run.attempt + 1
        run = self._runs.move(
            run,
            _S.PREPARING,
            attempt=number,
            ticket=attempt_id(run.id, number),
            message="Preparing the environment.",
        )
        return self.prepare(run)

    def prepare(self, run: RunRecord) -> RunRecord:
        self._act(run, lambda: self._launching.prepare(run))
        return self._stopped_if_wished(run)

    def may_prepare_again(self, run: RunRecord) -> bool:
        return run.attempt < _MOST_PREPARATIONS

    def prepare_elsewhere(self, run: RunRecord) -> RunRecord:
        """The node that built the environment is gone. Nothing of the run has begun, so another may do it."""
        number = run.attempt + 1
        return self.prepare(self._runs.update(run.id, attempt=number, ticket=attempt_id(run.id, number)))

    def note_prepared(self, attempt: str) -> None:
        """A node has told that the environment stands: nobody needs to look for it again."""
        self._prepared.add(attempt)

    def after_preparation(self, run: RunRecord) -> RunRecord:
        is_prepared = run.ticket in self._prepared
        self._prepared.discard(run.ticket)
        return self._queue_or_start(run) if is_prepared or self._launching.has_environment(run) else run

    def start_unmanaged(self, run: RunRecord) -> RunRecord:
        """Start a run that has no cluster to wait for."""
        alone = node_count_of(run.definition) == 1
        return self.start(run, Gang() if alone else Gang(nodes_of_its_own(run, self._clock.now())))

    def start(self, run: RunRecord, gang: Gang) -> RunRecord:
        number = run.attempt + 1
        names = tuple(node.name for node in gang.nodes)
        run = self._runs.move(
            run, _S.STARTING, attempt=number, ticket=attempt_id(run.id, number), nodes=names, message="Starting."
        )
        return self._launch(run, gang)

    def start_again(self, run: RunRecord) -> RunRecord:
        """For an attempt of which the engine knows nothing yet, or not all."""
        if run.target in UNMANAGED_TARGETS:
            return self._launch(run, Gang(nodes_of_its_own(run, self._clock.now())) if len(run.nodes) > 1 else Gang())
        return self._launch(run, self._places.held_by(run))

    def _queue_or_start(self, run: RunRecord) -> RunRecord:
        if is_build(run.definition):
            return self._end_build(run)
        if run.target in UNMANAGED_TARGETS:
            return self.start_unmanaged(run)
        return self._runs.move(run, _S.QUEUED, message=f"Waiting for nodes of '{run.target}'.")

    def _end_build(self, run: RunRecord) -> RunRecord:
        """It wanted the environment, and nothing more."""
        built = self._launching.built(run)
        facts = {ENVIRONMENT_FACTS: {"key": built["key"], "image": built["image"]}}
        return self._runs.move(run, _S.COMPLETED, message="", exit_facts=facts, environment_lock=built["lock"])

    def _launch(self, run: RunRecord, gang: Gang) -> RunRecord:
        self._act(run, lambda: self._launching.launch(run, gang))
        return self._stopped_if_wished(run)

    def _act(self, run: RunRecord, act: Callable[[], None]) -> None:
        try:
            act()
        except EngineError as error:
            if self._places.is_at_home(run):
                self._fail(run.id, error)
            else:  # a cluster elsewhere comes back: the next sweep finds the attempt lost and starts it
                self._runs.update(run.id, message=f"{NOT_STARTED} {error}")
        except RunyardError as error:
            self._fail(run.id, error)

    def _stopped_if_wished(self, run: RunRecord) -> RunRecord:
        """A cancel that came between our move and the start found nothing to stop."""
        now = self._runs.get(run.id)
        if now.status is _S.CANCEL_REQUESTED or now.status.is_terminal:
            self._stopping.cancel(run)
        return now
