"""The loop of a supervisor: while it waits, it sends reports and logs, uploads files and reads stop requests."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runyard.client import ConnectionPool
from runyard.core.errors import AttemptOver
from runyard.core.records.launch_plan import LaunchPlan
from runyard.node.file_watcher import FileWatcher
from runyard.node.processes.event_loop import EventLoop, now
from runyard.node.processes.exit_report import ExitReport
from runyard.node.service_client import connect_to_service
from runyard.node.shipping.artifact_uploader import ArtifactUploader
from runyard.node.shipping.output_watcher import OutputWatcher
from runyard.node.shipping.report_queue import ReportQueue
from runyard.node.task_folder import TaskFolder

_ORPHAN_CHECK_SECONDS = 30.0
_LONGEST_GRACE_OF_MANY_SECONDS = 3.0
"""So that every rank of a run on several nodes has ended within 5 s of a cancel."""


def capped_grace(plan: LaunchPlan, grace_seconds: float) -> float:
    """Grace for a task of this plan: at most a few seconds in a distributed run."""
    return min(grace_seconds, _LONGEST_GRACE_OF_MANY_SECONDS) if plan.is_distributed else grace_seconds


@dataclass(frozen=True)
class StopRequest:
    """Request to end the task and to report it as `end_as`: "canceled", "failed" or "completed"."""

    grace_seconds: float
    end_as: str = "canceled"


class SupervisorLoop:
    """`stop` is the last stop request, None while the task may go on."""

    def __init__(self, folder: TaskFolder, plan: LaunchPlan, connections: ConnectionPool) -> None:
        self._folder, self._plan = folder, plan
        self.events, self.watcher = EventLoop(), FileWatcher()
        client = connect_to_service(folder.home, plan.token, connections=connections)
        self.report_queue = ReportQueue(plan, client, self._take_from_service)
        upload_client = connect_to_service(folder.home, plan.token, silence_seconds=3600)
        is_fenced = plan.environment.image is not None
        self.uploader = ArtifactUploader(
            upload_client, self.events.wake, by_path=plan.shares_files, is_fenced=is_fenced
        )
        self.output_watcher = OutputWatcher(folder, plan, self.watcher, self.report_queue, self.uploader)
        self.stop: StopRequest | None = None
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

    def begin_finalizing(self) -> None:
        """Mark that the processes have ended: from now on only a cancel interrupts what is left to do."""
        self._is_ending = True
        if self.stop is not None and self.stop.end_as != "canceled":
            self.stop = None

    def report_failing(self, report: ExitReport) -> None:
        """Report a failure before all files are uploaded, so that the other nodes stop at once. Does nothing unless the
        task itself failed and the run has other nodes. Raises AttemptOver."""
        failed_by_itself = report.outcome == "failed" and report.error is not None
        if len(self._plan.nodes) > 1 and failed_by_itself and not self._has_reported_failing:
            self._has_reported_failing = True
            self.report_queue.report("failing", **vars(report))
            self.report_queue.ship()

    def drop(self) -> None:
        """Stop sending: the service takes nothing of the task any more."""
        self._is_dropped = True

    def deliver_all(self) -> None:
        """Wait until the service has everything, however long that takes."""
        self.wait_until(self.is_all_delivered, ignore_cancel=True)

    def close(self) -> None:
        """Close all descriptors but the shared connections, and end the thread. Call it when everything is
        delivered."""
        self.uploader.close()  # its thread writes to the pipe of `events`
        self.watcher.close()
        self.events.close()

    def is_all_delivered(self) -> bool:
        return not self.report_queue.pending and self.uploader.is_idle

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
        if self.uploader.is_over:
            raise AttemptOver("The run has gone on without this attempt.")
        if self.report_queue.seconds_to_next() == 0:
            self.report_queue.ship()
        self.output_watcher.hand_over()

    def _seconds_to_next(self, deadline: float | None) -> float:
        waits: list[float | None] = [_ORPHAN_CHECK_SECONDS]
        if not self._is_dropped:
            waits += [self.report_queue.seconds_to_next(), self.output_watcher.seconds_to_next()]
        if deadline is not None:
            waits.append(max(0.0, deadline - now()))
        if not self._folder.exists():
            os._exit(0)  # The home folder was removed: nothing is left to supervise.
        return min(wait for wait in waits if wait is not None)

    def _take_from_service(self, end_as: str) -> None:
        """Take a stop request from the service's answer to a report, which has no grace of its own."""
        if self.stop is None:
            self.take(StopRequest(self._plan.cancel_grace_seconds, end_as))

    def take(self, stop: StopRequest) -> None:
        """Take a stop request. While finalizing, only a cancel counts."""
        if not self._is_ending or stop.end_as == "canceled":
            self.stop = StopRequest(self.capped(stop.grace_seconds), stop.end_as)

    def _read_stop(self, path: Path) -> None:
        if path.name == "cancel.json" and (request := self._folder.read("cancel.json")) is not None:
            self.take(StopRequest(float(request["grace"]), str(request.get("end_as", "canceled"))))

    def _notice_service(self, path: Path) -> None:
        if path.name == "service.json":
            self.report_queue.retry_now()
            self.uploader.retry_now()
