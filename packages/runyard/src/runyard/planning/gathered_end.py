"""How an attempt of several processes ended, told as one process's end is: which rank, where, how, its last lines."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runyard.model.parts import Part
from runyard.planning.gathering import Decision

_OF_THE_CAUSE = ("exit_code", "signal", "oom", "phase", "rank")
Facts = Mapping[str, Any]


def end_report(decision: Decision, parts: Sequence[Part], names: Sequence[str]) -> dict[str, Any]:
    """The one `ended` report of the whole attempt. `names` are those of its nodes; all parts have ended."""
    report: dict[str, Any] = {
        "outcome": decision.outcome,
        "exit_code": 0 if decision.outcome == "completed" else None,
        "warnings": list(dict.fromkeys(str(text) for part in parts for text in part.facts.get("warnings") or ())),
        "undelivered": sum(int(part.facts.get("undelivered") or 0) for part in parts),
        "outputs": _outputs(parts),
    }
    cause = decision.cause
    if cause is None:
        return report
    facts = _with_last_lines(cause.facts, (part.facts for part in parts))
    where = _node(_node_of(cause), parts, names)
    report |= {name: facts.get(name) for name in _OF_THE_CAUSE}
    return {**report, "tail": facts.get("tail") or "", "error": _error(facts, where)}


def end_of_one_node(report: Facts, name: str) -> dict[str, Any]:
    """The `ended` report of an attempt that has several processes on one node, with the rank that failed named."""
    if report.get("outcome") != "failed" or not report.get("error"):
        return dict(report)
    facts = _with_last_lines(report, [report])
    return {**facts, "error": _error(facts, f"node {name}")}


def said_while_stopping(cause: Part, names: Sequence[str]) -> str:
    """For those who look at the run while the parts that are left are being stopped."""
    where, facts = f"node {_name(_node_of(cause), names)}", cause.facts
    if facts.get("lost"):
        who = f"N{where[1:]} was lost"
    elif _has_ended_process(facts) and facts.get("rank") is not None:
        who = f"Rank {facts['rank']} on {where} failed"
    else:
        who = f"N{where[1:]} failed"
    return f"{who}; stopping the others."


def _outputs(parts: Sequence[Part]) -> dict[str, int]:
    """How many files each output had when its last node looked."""
    seen: dict[str, int] = {}
    for part in parts:
        for name, files in (part.facts.get("outputs") or {}).items():
            seen[name] = max(seen.get(name, 0), int(files))
    return seen


def _with_last_lines(cause: Facts, all_facts: Iterable[Facts]) -> dict[str, Any]:
    """A launcher knows which rank failed; that rank's node knows what it wrote last."""
    facts, rank = dict(cause), str(cause.get("rank"))
    if facts.get("tail"):
        return facts
    kept: Facts = next((each["last_lines"][rank] for each in all_facts if rank in (each.get("last_lines") or {})), {})
    if kept.get("tail"):
        facts["tail"] = kept["tail"]
    if kept.get("raised"):
        facts["error"] = {**(facts.get("error") or {}), "message": f"User program failed with {kept['raised']}"}
    return facts


def _error(facts: Facts, where: str) -> dict[str, Any]:
    error = dict(facts.get("error") or {})
    return {**error, "message": _message(facts, str(error.get("message") or "").rstrip("."), where)}


def _message(facts: Facts, said: str, where: str) -> str:
    if facts.get("outcome") == "canceled":
        return f"{said}."
    if "why" in facts:
        return ": ".join(filter(None, (f"N{where[1:]} was lost", str(facts["why"]).rstrip(".")))) + "."
    log = f"its log is {facts['log']}" if facts.get("log") else ""
    end = "" if where in said and not _has_ended_process(facts) else _end_of_rank(facts, where)
    return "; ".join(filter(None, (said, end, log))) + "."


def _end_of_rank(facts: Facts, where: str) -> str:
    number, code, rank = facts.get("signal"), facts.get("exit_code"), facts.get("rank")
    if not _has_ended_process(facts):
        return f"on {where}"
    who = "a process" if rank is None else f"rank {rank}"
    how = f"exited with code {code}" if number is None else f"was killed by signal {number}"
    return f"{who} on {where} {how}"


def _has_ended_process(facts: Facts) -> bool:
    """Else something went wrong before one was started, or beside all of them."""
    return facts.get("signal") is not None or bool(facts.get("exit_code"))


def _node_of(cause: Part) -> int:
    """Where the failure was: a launcher answers for ranks on other nodes."""
    failed_node = cause.facts.get("failed_node")
    return cause.node if failed_node is None else int(failed_node)


def _name(node: int, names: Sequence[str]) -> str:
    return names[node] if node < len(names) else str(node)


def _node(node: int, parts: Sequence[Part], names: Sequence[str]) -> str:
    address = next((part.facts.get("address") for part in parts if part.node == node), None)
    return f"node {_name(node, names)} ({address})" if address else f"node {_name(node, names)}"
