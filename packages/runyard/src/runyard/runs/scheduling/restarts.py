"""Whether a failed attempt is followed by another one, and what the run remembers of those before."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.core.definitions.report import NodeReport, ReportedError
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.runs.history.logs import LOG_STARTS

PORT_TAKEN = "PortTaken"
"""The error code of a part whose port a stranger took between choosing and binding: nobody's fault, worth a new try."""
_RESTARTS = "restarts"
_LOST_NODE, _PORT_TAKEN = "lost_node", "port_taken"
_MOST_FOR_PORTS = 2


@dataclass(frozen=True)
class Restart:
    counts: Mapping[str, int]
    text: str
    """For its users: why, and which attempt comes."""

    def facts(self, log_starts: Mapping[str, int]) -> dict[str, Any]:
        """What the run carries until it ends. `log_starts`: how long each log is when the next attempt begins."""
        return {_RESTARTS: dict(self.counts), LOG_STARTS: dict(log_starts)}


def restart_after(run: RunRecord, report: NodeReport) -> Restart | None:
    """None where the run shall end as the report says."""
    if report.outcome != "failed" or run.status in (RunStatus.CANCEL_REQUESTED, RunStatus.PREPARING):
        return None
    counts = restarts_of(run)
    error = report.error or ReportedError()
    why = error.message.rstrip(".")
    tries = counts.get(_PORT_TAKEN, 0)
    if error.code == PORT_TAKEN and tries < _MOST_FOR_PORTS:
        text = f"{why}. The run is started again by itself, for the {'first' if tries == 0 else 'last'} time."
        return _restart(counts, _PORT_TAKEN, text)
    lost, most = counts.get(_LOST_NODE, 0), run.definition.max_attempts if report.is_lost else 1
    if lost + 1 < most:
        text = f"{why}. The run is started again from its outputs: attempt {lost + 2} of {most}."
        return _restart(counts, _LOST_NODE, text)
    return None


def restarts_of(run: RunRecord) -> Mapping[str, int]:
    """How often it was started again, by reason."""
    found: Mapping[str, int] = (run.exit_facts or {}).get(_RESTARTS) or {}
    return found


def restores_outputs(run: RunRecord) -> bool:
    """Whether its next attempt goes on from what the one before, or another run, left in outputs/."""
    return restarts_of(run).get(_LOST_NODE, 0) > 0 or outputs_of(run) is not None


def outputs_of(run: RunRecord) -> RunId | None:
    """The run whose outputs/ it begins with."""
    found = run.definition.runyard.outputs_of
    return None if found is None else RunId(found)


def kept_facts(run: RunRecord) -> dict[str, Any]:
    """What the exit facts of a run that has ended still say of its restarts."""
    return {_RESTARTS: dict(restarts_of(run))} if restarts_of(run) else {}


def _restart(counts: Mapping[str, int], reason: str, text: str) -> Restart:
    return Restart({**counts, reason: counts.get(reason, 0) + 1}, text)
