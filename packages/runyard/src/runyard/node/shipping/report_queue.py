from collections import deque
from collections.abc import Callable

from runyard.client import Backoff, ServiceClient, ServiceUnavailable, quoted
from runyard.core.errors import AttemptOver, Forbidden, Json, RunyardError
from runyard.core.records.launch_plan import LaunchPlan
from runyard.node.processes.event_loop import now
from runyard.node.shipping.growing_files import JournalShipper, LogShipper

_LONG_OUTAGE_SECONDS = 5.0
_COLLECT_SECONDS = 0.02
_HELD_SECONDS = 0.05
"""Time that the report of a script's start waits for that of its end: reports are most of a short run's cost."""


class ReportQueue:
    """Queue of reports, logs and journals for the service. Sending is retried for as long as it takes.

    `on_stop` is called with the requested outcome when the service answers a report with a stop request. While a script
    prints line by line, lines are collected for a moment and sent together, unless `sends_at_once`.
    """

    def __init__(self, plan: LaunchPlan, client: ServiceClient, on_stop: Callable[[str], None]) -> None:
        self._client, self._on_stop, self._node = client, on_stop, plan.node
        self._address = f"/attempts/{quoted(plan.attempt_id)}/report"
        self.logs, self.journals = LogShipper(plan.run_id), JournalShipper()
        self._reports: deque[Json] = deque()
        self._held: Json | None = None
        self._held_until = 0.0
        self._patience, self._retry_at, self._away_since = Backoff(), 0.0, 0.0
        self._must_resume = False
        self._last_error, self._collect_until = "", 0.0
        self.sends_at_once = False
        self.warnings: list[str] = []

    def report(self, state: str, **facts: object) -> None:
        """Queue a report. Reports are sent in order."""
        self._release_held()
        self._reports.append({"state": state, "node": self._node, **facts})

    def report_running(self, **facts: object) -> None:
        """Queue the report that the script runs. It is held for a moment: a script that ends meanwhile has one report,
        of its end."""
        self._held, self._held_until = {"state": "running", "node": self._node, **facts}, now() + _HELD_SECONDS

    def report_end(self, **facts: object) -> None:
        """Queue the last report, with the facts of a report that is still held."""
        held, self._held = self._held or {}, None
        self.report("ended", **{name: held[name] for name in ("started_at", "lock") if name in held}, **facts)

    def _release_held(self) -> None:
        if self._held is not None:
            self._reports.append(self._held)
            self._held = None

    def resume_from_service(self) -> None:
        """Ask the service, before the next send, what an earlier supervisor has sent."""
        self._must_resume = True

    @property
    def pending(self) -> bool:
        """True if anything waits to be sent, besides a report that is held."""
        return bool(self._reports) or self.logs.files.pending or self.journals.files.pending

    def seconds_to_next(self) -> float | None:
        """Seconds until `ship` has something to do; None when nothing is queued."""
        held = None if self._held is None else max(0.0, self._held_until - now())
        if not self.pending:
            return held
        collect_until = 0.0 if self.sends_at_once or self._reports else self._collect_until
        queued = max(0.0, max(self._retry_at, collect_until) - now())
        return queued if held is None else min(queued, held)

    def retry_now(self) -> None:
        """Send without further pause: the service may be back."""
        self._retry_at = 0.0
        self._patience.renew()

    def ship(self) -> None:
        """Send the queued reports, then a piece of each log and journal that has grown. Raises AttemptOver."""
        has_lines = self.logs.files.pending or self.journals.files.pending
        try:
            self._ship()
            self._warn_of_outage()
            if has_lines and not self.pending:
                self._collect_until = now() + _COLLECT_SECONDS
        except ServiceUnavailable as e:
            self._away_since = self._away_since or now()
            self._last_error = str(e)
            self._retry_at = now() + self._patience.next_pause()

    def _ship(self) -> None:
        if now() >= self._held_until:  # first: what follows may fail, and a held report that is due has no pause
            self._release_held()
        if self._must_resume:
            self.logs.resume(self._client)
            self.journals.resume(self._client)
            self._must_resume = False
        while self._reports:
            self._send_report(self._reports[0])
            self._reports.popleft()
        self.logs.ship(self._client)
        self.journals.ship(self._client)

    def _send_report(self, body: Json) -> None:
        try:
            answer = self._client.post(self._address, body)
        except AttemptOver:
            raise
        except Forbidden as e:
            self.warnings.append(f"The service refused the report {body['state']!r}: {e}")
            return
        except RunyardError:
            # Refused for good: the run was deleted, or has ended otherwise. Its logs are still sent.
            return
        if answer.get("cancel"):
            self._on_stop(answer.get("end_as") or "canceled")

    def _warn_of_outage(self) -> None:
        if self._away_since and now() - self._away_since > _LONG_OUTAGE_SECONDS:
            seconds = now() - self._away_since
            self.warnings.append(f"Nothing could be delivered for {seconds:.0f} s: {self._last_error}")
        self._away_since = 0.0
        self._patience.renew()
