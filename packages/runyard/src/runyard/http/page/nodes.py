from collections.abc import Callable, Sequence

from runyard.http.page.markup import Markup, tag
from runyard.http.page.sections import NOTHING, section, table
from runyard.runs.history.ranks import NodeOfRun, RankOfRun, RanksOfRun
from runyard.runs.overview import LogTail


def nodes(several: RanksOfRun) -> Markup:
    """Table of the nodes; empty for one process on one node."""
    if len(several.nodes) < 2 and len(several.ranks) < 2:
        return NOTHING
    rows = [
        (one.node, one.name or one.address, one.address, _ranks_on(one.node, several.ranks), one.state, ended(one))
        for one in several.nodes
    ]
    return section(f"Nodes ({len(rows)})", table(("node", "name", "address", "ranks", "state", "end"), rows))


def rank_logs(several: Sequence[LogTail], link: Callable[[str], str]) -> Markup:
    """Logs of the other ranks, collapsed."""
    if not several:
        return NOTHING
    opened = [
        tag("details", tag("summary", tag("a", one.path, href=link(one.path))), tag("pre", one.text)) for one in several
    ]
    return section("Logs of the other ranks", *opened)


def ended(node: NodeOfRun) -> str:
    """How the worst process of the node ended, in few words."""
    if node.oom:
        return "out of memory"
    if node.signal:
        return f"signal {node.signal}"
    if node.exit_code:
        return f"exit code {node.exit_code}"
    return node.outcome


def _ranks_on(node: int, ranks: Sequence[RankOfRun]) -> str:
    found = [one for one in ranks if one.node == node]
    return ", ".join(str(one.rank) if one.role == "worker" else f"{one.rank} ({one.role})" for one in found)
