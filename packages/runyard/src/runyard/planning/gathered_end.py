"""How an attempt of several processes ended, told as one process's end is: which rank, where, how, its last lines."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from runyard.core.definitions.report import LastLines, NodeReport, ReportedError
from runyard.model.parts import Part
from runyard.planning.gathering import Decision


def end_report(decision: Decision, parts: Sequence[Part], names: Sequence[str]) -> NodeReport:
    """The one `ended` report of the whole attempt. `names` are those of its nodes; all parts have ended."""
    report = NodeReport(
        "ended",
        outcome=decision.outcome or "",
        exit_code=0 if decision.outcome == "completed" else None,
        warnings=tuple(dict.fromkeys(text for part in parts for text in part.told.warnings)),
        undelivered=sum(part.told.undelivered or 0 for part in parts),
        outputs=_outputs(parts),
    )
    if decision.cause is None:
        return report
    cause = _with_last_lines(decision.cause.told, (part.told for part in parts))
    return replace(
        report,
        exit_code=cause.exit_code,
        signal=cause.signal,
        oom=cause.oom,
        phase=cause.phase,
        rank=cause.rank,
        tail=cause.tail or "",
        is_lost=cause.is_lost,
        error=_error(cause, _node(_node_of(decision.cause), parts, names)),
    )


def end_of_one_node(report: NodeReport, name: str) -> NodeReport:
    """The `ended` report of an attempt that has several processes on one node, with the rank that failed named."""
    if report.outcome != "failed" or report.error is None:
        return report
    told = _with_last_lines(report, [report])
    return replace(told, error=_error(told, f"node {name}"))


def said_while_stopping(cause: Part, names: Sequence[str]) -> str:
    """For those who look at the run while the parts that are left are being stopped."""
    where, told = f"node {_name(_node_of(cause), names)}", cause.told
    if told.is_lost:
        who = f"N{where[1:]} was lost"
    elif _has_ended_process(told) and told.rank is not None:
        who = f"Rank {told.rank} on {where} failed"
    else:
        who = f"N{where[1:]} failed"
    return f"{who}; stopping the others."


def _outputs(parts: Sequence[Part]) -> dict[str, int]:
    """How many files each output had when its last node looked."""
    seen: dict[str, int] = {}
    for part in parts:
        for name, files in part.told.outputs.items():
            seen[name] = max(seen.get(name, 0), files)
    return seen


def _with_last_lines(cause: NodeReport, reports: Iterable[NodeReport]) -> NodeReport:
    """A launcher knows which rank failed; that rank's node knows what it wrote last."""
    if cause.tail:
        return cause
    rank = str(cause.rank)
    kept = next((one.last_lines[rank] for one in reports if rank in one.last_lines), LastLines("", ""))
    error = cause.error
    if kept.raised:
        error = replace(error or ReportedError(), message=f"User program failed with {kept.raised}")
    return replace(cause, tail=kept.tail or cause.tail, error=error)


def _error(told: NodeReport, where: str) -> ReportedError:
    error = told.error or ReportedError()
    return replace(error, message=_message(told, error.message.rstrip("."), where))


def _message(told: NodeReport, said: str, where: str) -> str:
    if told.outcome == "canceled":
        return f"{said}."
    if told.why is not None:
        return ": ".join(filter(None, (f"N{where[1:]} was lost", told.why.rstrip(".")))) + "."
    log = f"its log is {told.log}" if told.log else ""
    end = "" if where in said and not _has_ended_process(told) else _end_of_rank(told, where)
    return "; ".join(filter(None, (said, end, log))) + "."


def _end_of_rank(told: NodeReport, where: str) -> str:
    if not _has_ended_process(told):
        return f"on {where}"
    who = "a process" if told.rank is None else f"rank {told.rank}"
    how = f"exited with code {told.exit_code}" if told.signal is None else f"was killed by signal {told.signal}"
    return f"{who} on {where} {how}"


def _has_ended_process(told: NodeReport) -> bool:
    """Else something went wrong before one was started, or beside all of them."""
    return told.signal is not None or bool(told.exit_code)


def _node_of(cause: Part) -> int:
    """Where the failure was: a launcher answers for ranks on other nodes."""
    return cause.node if cause.told.failed_node is None else cause.told.failed_node


def _name(node: int, names: Sequence[str]) -> str:
    return names[node] if 0 <= node < len(names) else str(node)


def _node(node: int, parts: Sequence[Part], names: Sequence[str]) -> str:
    address = next((part.told.address for part in parts if part.node == node), "")
    return f"node {_name(node, names)} ({address})" if address else f"node {_name(node, names)}"
