"""How an attempt on several nodes ended, told as one node's end is told: which rank, where, how, and its last lines."""

from collections.abc import Mapping, Sequence
from typing import Any

from runyard.model.parts import Part
from runyard.planning.gathering import Decision

_OF_THE_CAUSE = ("exit_code", "signal", "oom", "phase", "rank")


def end_report(decision: Decision, parts: Sequence[Part], names: Sequence[str]) -> dict[str, Any]:
    """The one `ended` report of the whole attempt. `names` are those of its nodes; all parts have ended."""
    report: dict[str, Any] = {
        "outcome": decision.outcome,
        "exit_code": 0 if decision.outcome == "completed" else None,
        "warnings": list(dict.fromkeys(str(text) for part in parts for text in part.facts.get("warnings") or ())),
        "undelivered": sum(int(part.facts.get("undelivered") or 0) for part in parts),
    }
    cause = decision.cause
    if cause is None:
        return report
    facts = {**cause.facts, **_known_elsewhere(cause, parts)}
    report |= {name: facts.get(name) for name in _OF_THE_CAUSE}
    report["tail"] = facts.get("tail") or ""
    report["error"] = {**(facts.get("error") or {}), "message": _message(facts, parts, names, cause.node)}
    return report


def _known_elsewhere(cause: Part, parts: Sequence[Part]) -> dict[str, Any]:
    """A launcher knows which rank of another node failed; that node knows the rank's last lines."""
    if cause.facts.get("tail"):
        return {}
    rank = str(cause.facts.get("rank"))
    kept: Mapping[str, str] = next(
        (part.facts["last_lines"][rank] for part in parts if rank in (part.facts.get("last_lines") or {})), {}
    )
    known: dict[str, Any] = {"tail": kept["tail"]} if kept.get("tail") else {}
    if kept.get("raised"):
        error = cause.facts.get("error") or {}
        known["error"] = {**error, "message": f"User program failed with {kept['raised']}"}
    return known


def _message(facts: Mapping[str, Any], parts: Sequence[Part], names: Sequence[str], reporter: int) -> str:
    said = str((facts.get("error") or {}).get("message") or "").rstrip(".")
    failed_node = facts.get("failed_node")
    where = _node(reporter if failed_node is None else int(failed_node), parts, names)
    if facts.get("outcome") == "canceled":
        return f"{said}."
    if "why" in facts:
        return ": ".join(filter(None, (f"N{where[1:]} was lost", str(facts["why"]).rstrip(".")))) + "."
    return "; ".join(filter(None, (said, _end_of_rank(facts, where), _log(facts)))) + "."


def _end_of_rank(facts: Mapping[str, Any], where: str) -> str:
    number, code, rank = facts.get("signal"), facts.get("exit_code"), facts.get("rank")
    if number is None and not code:
        return f"on {where}"
    who = "a process" if rank is None else f"rank {rank}"
    how = f"exited with code {code}" if number is None else f"was killed by signal {number}"
    return f"{who} on {where} {how}"


def _log(facts: Mapping[str, Any]) -> str:
    return f"its log is {facts['log']}" if facts.get("log") else ""


def _node(node: int, parts: Sequence[Part], names: Sequence[str]) -> str:
    name = names[node] if node < len(names) else str(node)
    address = next((part.facts.get("address") for part in parts if part.node == node), None)
    return f"node {name} ({address})" if address else f"node {name}"
