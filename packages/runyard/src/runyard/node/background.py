"""What goes on all the while a supervisor waits: deliveries, finding files, hearing that it is to stop."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runyard.errors import AttemptOver
from runyard.model.plan import LaunchPlan
from runyard.node.attempt import AttemptFolder
from runyard.node.collection import Collection
from runyard.node.courier import Courier
from runyard.node.deliveries import Deliveries
from runyard.node.ending import Ending
from runyard.node.event_loop import EventLoop, now
from runyard.node.service import connect
from runyard.node.watching import Watcher

_ORPHAN_CHECK_SECONDS = 30.0
_LONGEST_GRACE_OF_MANY_SECONDS = 3.0
"""Every rank of a run on several nodes is over within 5 s of a cancel."""


def capped_grace(plan: LaunchPlan, grace_seconds: float) -> float:
    """What is left of the grace that somebody would give a part of this plan."""
    return min(grace_seconds, _LONGEST_GRACE_OF_MANY_SECONDS) if plan.is_distributed else grace_seconds


@dataclass(frozen=True)
class Stop:
    """The part is to end, and to be reported as `end_as`: "canceled", "failed" or "completed"."""

    grace_seconds: float
    end_as: str = "canceled"


class Background:
    """`stop` is what the part has been told last, None while it may go on."""

    def __init__(self, folder: AttemptFolder, plan: LaunchPlan) -> None:
        self._folder, self._plan = folder, plan
        self.loop, self.watcher = EventLoop(), Watcher()
        self.deliveries = Deliveries(plan, connect(folder.home, plan.token), self._hear)
        patient = connect(folder.home, plan.token, silence_seconds=3600)
        is_fenced = plan.environment.image is not None
        self.courier = Courier(patient, self.loop.wake, by_path=plan.shares_files, is_fenced=is_fenced)
        self.collection = Collection(folder, plan, self.watcher, self.deliveries, self.courier)
        self.stop: Stop | None = None
        self._is_ending = self._is_dropped = self._has_told_failing = False

    def listen(self) -> None:
        """From now on wishes to stop are heard, and a service that comes back is noticed."""
        self.loop.on_readable(self.watcher, self.watcher.dispatch)
        self.watcher.watch_arrivals(self._folder.root, lambda path, _: self._look_for_stop(path))
        self.watcher.watch_arrivals(self._folder.home, lambda path, _: self._look_for_service(path))
        self._look_for_stop(self._folder.root / "cancel.json")

    def grace(self) -> float:
        """How long the part's processes may take to end by themselves."""
        return self.capped(self._plan.cancel_grace_seconds if self.stop is None else self.stop.grace_seconds)

    def capped(self, grace_seconds: float) -> float:
        return capped_grace(self._plan, grace_seconds)

    def begin_end(self) -> None:
        """The processes have ended: from now on a cancel alone cuts short what is still to be done."""
        self._is_ending = True
        if self.stop is not None and self.stop.end_as != "canceled":
            self.stop = None

    def tell_failing(self, ending: Ending) -> None:
        """The other nodes shall stop at once, not only when all that was written here is delivered. Nothing to tell
        where the part has not failed by itself, or has no others. Raises AttemptOver."""
        failed_by_itself = ending.outcome == "failed" and ending.error is not None
        if len(self._plan.nodes) > 1 and failed_by_itself and not self._has_told_failing:
            self._has_told_failing = True
            self.deliveries.report("failing", **vars(ending))
            self.deliveries.ship()

    def drop(self) -> None:
        """Nothing of the part is wanted any more: what has not been delivered never will be."""
        self._is_dropped = True

    def deliver_all(self) -> None:
        """Until the service has everything; for as long as that takes, unless the home folder is gone."""
        self.wait_until(self.is_all_delivered, ignore_cancel=True)

    def is_all_delivered(self) -> bool:
        return not self.deliveries.pending and self.courier.is_idle

    def wait_until(
        self, is_done: Callable[[], bool], deadline: float | None = None, *, ignore_cancel: bool = False
    ) -> None:
        """Go on with all that is going on until that, the deadline, or a wish to stop. Raises AttemptOver."""
        while not is_done():
            if self.stop is not None and not ignore_cancel:
                return
            if deadline is not None and now() >= deadline:
                self.loop.wait(0)  # who was stopped meanwhile (SIGSTOP) has not seen what ended in time
                return
            self._carry_on()
            if is_done():
                return
            self.loop.wait(self._seconds_to_next(deadline))

    def _carry_on(self) -> None:
        if self._is_dropped:
            return
        if self.courier.is_over:
            raise AttemptOver("The run has gone on without this attempt.")
        if self.deliveries.seconds_to_next() == 0:
            self.deliveries.ship()
        self.collection.hand_over()

    def _seconds_to_next(self, deadline: float | None) -> float:
        waits: list[float | None] = [_ORPHAN_CHECK_SECONDS]
        if not self._is_dropped:
            waits += [self.deliveries.seconds_to_next(), self.collection.seconds_to_next()]
        if deadline is not None:
            waits.append(max(0.0, deadline - now()))
        if not self._folder.exists():
            os._exit(0)  # Somebody removed the home folder: there is nothing left to look after.
        return min(wait for wait in waits if wait is not None)

    def _hear(self, end_as: str) -> None:
        """The service said so, in an answer to a report: it gives no grace of its own."""
        if self.stop is None:
            self.take(Stop(self._plan.cancel_grace_seconds, end_as))

    def take(self, stop: Stop) -> None:
        """The part is told so."""
        if not self._is_ending or stop.end_as == "canceled":
            self.stop = Stop(self.capped(stop.grace_seconds), stop.end_as)

    def _look_for_stop(self, path: Path) -> None:
        if path.name == "cancel.json" and (wish := self._folder.read("cancel.json")) is not None:
            self.take(Stop(float(wish["grace"]), str(wish.get("end_as", "canceled"))))

    def _look_for_service(self, path: Path) -> None:
        if path.name == "service.json":
            self.deliveries.retry_now()
            self.courier.retry_now()
