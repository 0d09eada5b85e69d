from collections.abc import Iterable, Sequence
from dataclasses import replace

from runyard.core.definitions.report import LastLines, NodeReport, ReportedError
from runyard.model.parts import Part
from runyard.planning.gathering import Decision


def end_report(decision: Decision, tasks: Sequence[Part], names: Sequence[str]) -> NodeReport:
    """One `ended` report for the whole attempt, once all tasks have ended. `names`: those of its nodes."""
    report = NodeReport(
        "ended",
        outcome=decision.outcome or "",
        exit_code=0 if decision.outcome == "completed" else None,
        warnings=tuple(dict.fromkeys(text for task in tasks for text in task.report.warnings)),
        undelivered=sum(task.report.undelivered or 0 for task in tasks),
        outputs=_outputs(tasks),
    )
    if decision.cause is None:
        return report
    cause = _with_last_lines(decision.cause.report, (task.report for task in tasks))
    return replace(
        report,
        exit_code=cause.exit_code,
        signal=cause.signal,
        oom=cause.oom,
        phase=cause.phase,
        rank=cause.rank,
        tail=cause.tail or "",
        is_lost=cause.is_lost,
        error=_error(cause, _node(_node_of(decision.cause), tasks, names)),
    )


def end_of_one_node(report: NodeReport, name: str) -> NodeReport:
    """`ended` report of an attempt with several processes on one node, with the failed rank in its message."""
    if report.outcome != "failed" or report.error is None:
        return report
    report = _with_last_lines(report, [report])
    return replace(report, error=_error(report, f"node {name}"))


def said_while_stopping(cause: Part, names: Sequence[str]) -> str:
    """Message of the run while the remaining tasks are being stopped."""
    where, report = f"node {_name(_node_of(cause), names)}", cause.report
    if report.is_lost:
        who = f"N{where[1:]} was lost"
    elif _has_ended_process(report) and report.rank is not None:
        who = f"Rank {report.rank} on {where} failed"
    else:
        who = f"N{where[1:]} failed"
    return f"{who}; stopping the others."


def _outputs(tasks: Sequence[Part]) -> dict[str, int]:
    """Number of files of each output: the largest that a node reported."""
    seen: dict[str, int] = {}
    for task in tasks:
        for name, files in task.report.outputs.items():
            seen[name] = max(seen.get(name, 0), files)
    return seen


def _with_last_lines(cause: NodeReport, reports: Iterable[NodeReport]) -> NodeReport:
    """Add the last lines of the failed rank: the launcher knows the rank, but its node has the lines."""
    if cause.tail:
        return cause
    rank = str(cause.rank)
    kept = next((one.last_lines[rank] for one in reports if rank in one.last_lines), LastLines("", ""))
    error = cause.error
    if kept.raised:
        error = replace(error or ReportedError(), message=f"User program failed with {kept.raised}")
    return replace(cause, tail=kept.tail or cause.tail, error=error)


def _error(report: NodeReport, where: str) -> ReportedError:
    error = report.error or ReportedError()
    return replace(error, message=_message(report, error.message.rstrip("."), where))


def _message(report: NodeReport, text: str, where: str) -> str:
    if report.outcome == "canceled":
        return f"{text}."
    if report.why is not None:
        return ": ".join(filter(None, (f"N{where[1:]} was lost", report.why.rstrip(".")))) + "."
    log = f"its log is {report.log}" if report.log else ""
    end = "" if where in text and not _has_ended_process(report) else _end_of_rank(report, where)
    return "; ".join(filter(None, (text, end, log))) + "."


def _end_of_rank(report: NodeReport, where: str) -> str:
    if not _has_ended_process(report):
        return f"on {where}"
    who = "a process" if report.rank is None else f"rank {report.rank}"
    how = f"exited with code {report.exit_code}" if report.signal is None else f"was killed by signal {report.signal}"
    return f"{who} on {where} {how}"


def _has_ended_process(report: NodeReport) -> bool:
    """False if the failure came before the start of a process, or from outside."""
    return report.signal is not None or bool(report.exit_code)


def _node_of(cause: Part) -> int:
    """Node of the failure: a launcher reports for ranks on other nodes."""
    return cause.node if cause.report.failed_node is None else cause.report.failed_node


def _name(node: int, names: Sequence[str]) -> str:
    return names[node] if 0 <= node < len(names) else str(node)


def _node(node: int, tasks: Sequence[Part], names: Sequence[str]) -> str:
    address = next((task.report.address for task in tasks if task.node == node), "")
    return f"node {_name(node, names)} ({address})" if address else f"node {_name(node, names)}"
