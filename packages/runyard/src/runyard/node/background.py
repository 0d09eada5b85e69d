"""The loop of a supervisor: while it waits, it sends reports and logs, uploads files and reads stop requests."""

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
"""So that every rank of a run on several nodes has ended within 5 s of a cancel."""


def capped_grace(plan: LaunchPlan, grace_seconds: float) -> float:
    """Grace for a task of this plan: at most a few seconds in a distributed run."""
    return min(grace_seconds, _LONGEST_GRACE_OF_MANY_SECONDS) if plan.is_distributed else grace_seconds


@dataclass(frozen=True)
class Stop:
    """Request to end the task and to report it as `end_as`: "canceled", "failed" or "completed"."""

    grace_seconds: float
    end_as: str = "canceled"


class Background:
    """`stop` is the last stop request, None while the task may go on."""

    def __init__(self, folder: AttemptFolder, plan: LaunchPlan) -> None:
        self._folder, self._plan = folder, plan
        self.events, self.watcher = EventLoop(), Watcher()
        self.deliveries = Deliveries(plan, connect(folder.home, plan.token), self._take_from_service)
        upload_client = connect(folder.home, plan.token, silence_seconds=3600)
        is_fenced = plan.environment.image is not None
        self.courier = Courier(upload_client, self.events.wake, by_path=plan.shares_files, is_fenced=is_fenced)
        self.collection = Collection(folder, plan, self.watcher, self.deliveries, self.courier)
        self.stop: Stop | None = None
        self._is_ending = self._is_dropped = self._has_reported_failing = False

    def listen(self) -> None:
        """Begin to watch for stop requests, and for a service that comes back."""
        self.events.on_readable(self.watcher, self.watcher.dispatch)
        self.watcher.watch_arrivals(self._folder.root, lambda path, _: self._read_stop(path))
        self.watcher.watch_arrivals(self._folder.home, lambda path, _: self._notice_service(path))
        self._read_stop(self._folder.root / "cancel.json")

    def grace(self) -> float:
        """Seconds that the task's processes get between SIGTERM and SIGKILL."""
        return self.capped(self._plan.cancel_grace_seconds if self.stop is None else self.stop.grace_seconds)

    def capped(self, grace_seconds: float) -> float:
        return capped_grace(self._plan, grace_seconds)

    def begin_end(self) -> None:
        """Mark that the processes have ended: from now on only a cancel interrupts what is left to do."""
        self._is_ending = True
        if self.stop is not None and self.stop.end_as != "canceled":
            self.stop = None

    def tell_failing(self, report: Ending) -> None:
        """Report a failure before all files are uploaded, so that the other nodes stop at once. Does nothing unless the
        task itself failed and the run has other nodes. Raises AttemptOver."""
        failed_by_itself = report.outcome == "failed" and report.error is not None
        if len(self._plan.nodes) > 1 and failed_by_itself and not self._has_reported_failing:
            self._has_reported_failing = True
            self.deliveries.report("failing", **vars(report))
            self.deliveries.ship()

    def drop(self) -> None:
        """Stop sending: the service takes nothing of the task any more."""
        self._is_dropped = True

    def deliver_all(self) -> None:
        """Wait until the service has everything, however long that takes."""
        self.wait_until(self.is_all_delivered, ignore_cancel=True)

    def is_all_delivered(self) -> bool:
        return not self.deliveries.pending and self.courier.is_idle

    def wait_until(
        self, is_done: Callable[[], bool], deadline: float | None = None, *, ignore_cancel: bool = False
    ) -> None:
        """Run the loop until `is_done`, the deadline, or a stop request. Raises AttemptOver."""
        while not is_done():
            if self.stop is not None and not ignore_cancel:
                return
            if deadline is not None and now() >= deadline:
                self.events.wait(0)  # if this process was stopped (SIGSTOP), exits in time are still unread
                return
            self._send_due()
            if is_done():
                return
            self.events.wait(self._seconds_to_next(deadline))

    def _send_due(self) -> None:
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
            os._exit(0)  # The home folder was removed: nothing is left to supervise.
        return min(wait for wait in waits if wait is not None)

    def _take_from_service(self, end_as: str) -> None:
        """Take a stop request from the service's answer to a report, which has no grace of its own."""
        if self.stop is None:
            self.take(Stop(self._plan.cancel_grace_seconds, end_as))

    def take(self, stop: Stop) -> None:
        """Take a stop request. While finalizing, only a cancel counts."""
        if not self._is_ending or stop.end_as == "canceled":
            self.stop = Stop(self.capped(stop.grace_seconds), stop.end_as)

    def _read_stop(self, path: Path) -> None:
        if path.name == "cancel.json" and (request := self._folder.read("cancel.json")) is not None:
            self.take(Stop(float(request["grace"]), str(request.get("end_as", "canceled"))))

    def _notice_service(self, path: Path) -> None:
        if path.name == "service.json":
            self.deliveries.retry_now()
            self.courier.retry_now()
