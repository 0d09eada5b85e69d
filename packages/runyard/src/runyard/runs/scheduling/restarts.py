from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.core.definitions.node_report import NodeReport, ReportedError
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.runs.history.logs import LOG_STARTS

PORT_TAKEN = "PortTaken"
"""Error code of a task whose port was taken by another program between choosing and binding: worth a restart."""
_RESTARTS = "restarts"
_LOST_NODE, _PORT_TAKEN = "lost_node", "port_taken"
_MOST_FOR_PORTS = 2


@dataclass(frozen=True)
class Restart:
    counts: Mapping[str, int]
    text: str
    """Shown to users: the reason, and the number of the next attempt."""

    def facts(self, log_starts: Mapping[str, int]) -> dict[str, Any]:
        """Exit facts to store until the run ends. `log_starts`: length of each log when the next attempt begins."""
        return {_RESTARTS: dict(self.counts), LOG_STARTS: dict(log_starts)}


def restart_after(run: RunRecord, report: NodeReport) -> Restart | None:
    """Decide whether a failed attempt is followed by another; None if the run ends."""
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
    """Number of restarts by reason."""
    found: Mapping[str, int] = (run.exit_facts or {}).get(_RESTARTS) or {}
    return found


def restores_outputs(run: RunRecord) -> bool:
    """Whether the next attempt begins with the outputs/ of the previous attempt or of another run."""
    return restarts_of(run).get(_LOST_NODE, 0) > 0 or outputs_of(run) is not None


def outputs_of(run: RunRecord) -> RunId | None:
    """Run whose outputs/ this run begins with, if any."""
    found = run.definition.runyard.outputs_of
    return None if found is None else RunId(found)


def kept_facts(run: RunRecord) -> dict[str, Any]:
    """Exit facts about restarts that stay after the end of the run."""
    return {_RESTARTS: dict(restarts_of(run))} if restarts_of(run) else {}


def _restart(counts: Mapping[str, int], reason: str, text: str) -> Restart:
    return Restart({**counts, reason: counts.get(reason, 0) + 1}, text)
