from collections import deque
from collections.abc import Callable

from runyard.client import Patience, ServiceAway, ServiceClient, quoted
from runyard.errors import AttemptOver, Forbidden, Json, RunyardError
from runyard.model.plan import LaunchPlan
from runyard.node.event_loop import now
from runyard.node.journals import JournalShipping
from runyard.node.logs import LogShipping

_NOTED_AFTER_SECONDS = 5.0
_REST_SECONDS = 0.02


class Deliveries:
    """Reports, logs and journals on their way to the service, tried again for as long as it takes.

    `on_stop` is called with what the part shall end as when the service answers a report with the wish to stop.
    While a script prints line by line, lines are gathered for a moment and sent together, unless `is_in_haste`.
    """

    def __init__(self, plan: LaunchPlan, client: ServiceClient, on_stop: Callable[[str], None]) -> None:
        self._client, self._on_stop, self._node = client, on_stop, plan.node
        self._address = f"/attempts/{quoted(plan.attempt_id)}/report"
        self.logs, self.journals = LogShipping(plan.run_id), JournalShipping()
        self._reports: deque[Json] = deque()
        self._patience, self._retry_at, self._away_since = Patience(), 0.0, 0.0
        self._must_resume = False
        self._trouble, self._rest_until = "", 0.0
        self.is_in_haste = False
        self.warnings: list[str] = []

    def report(self, state: str, **facts: object) -> None:
        """Reports arrive in the order they were made."""
        self._reports.append({"state": state, "node": self._node, **facts})

    def resume_from_service(self) -> None:
        """Ask first what an earlier supervisor has delivered."""
        self._must_resume = True

    @property
    def pending(self) -> bool:
        return bool(self._reports) or self.logs.files.pending or self.journals.files.pending

    def seconds_to_next(self) -> float | None:
        """When `ship` is worth calling; None when there is nothing to do."""
        if not self.pending:
            return None
        rests = 0.0 if self.is_in_haste or self._reports else self._rest_until
        return max(0.0, max(self._retry_at, rests) - now())

    def retry_now(self) -> None:
        """The service may be back."""
        self._retry_at = 0.0
        self._patience.renew()

    def ship(self) -> None:
        """One round: waiting reports, then pieces of logs and journals that have more. Raises AttemptOver."""
        has_lines = self.logs.files.pending or self.journals.files.pending
        try:
            self._ship()
            self._note_return()
            if has_lines and not self.pending:
                self._rest_until = now() + _REST_SECONDS
        except ServiceAway as e:
            self._away_since = self._away_since or now()
            self._trouble = str(e)
            self._retry_at = now() + self._patience.next_pause()

    def _ship(self) -> None:
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
            # Refused for good: the run was deleted, or has ended in another way. The logs still count.
            return
        if answer.get("cancel"):
            self._on_stop(answer.get("end_as") or "canceled")

    def _note_return(self) -> None:
        if self._away_since and now() - self._away_since > _NOTED_AFTER_SECONDS:
            seconds = now() - self._away_since
            self.warnings.append(f"Nothing could be delivered for {seconds:.0f} s: {self._trouble}")
        self._away_since = 0.0
        self._patience.renew()
