"""What mpirun of Open MPI 4 prints when a job fails, and whom that names."""

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass

from runyard.model.plan import LaunchPlan

_BY_SIGNAL = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+)")
_BY_EXIT_CODE = re.compile(r"Process name: \[\[\d+,\d+\],(\d+)\]\s+Exit code:\s+(\d+)")
_BY_ABORT = re.compile(r"MPI_ABORT was invoked on rank (\d+) in communicator (\S+)\s+with errorcode (-?\d+)")
_NOT_STARTED = re.compile(
    r"^[^\S\n]*+Executable: ([^\n]++)\s++Node: (\S++)\s++while attempting to start process rank (\d+)", re.MULTILINE
)
_LOST_DAEMON = re.compile(r"Remote daemon: \S+ on node (\S+)")
_NO_DAEMON = re.compile(r"^Runyard: node (\S+) did not start its MPI daemon: (.*)$", re.MULTILINE)
_NO_START = "ORTE was unable to reliably start one or more daemons"
_NO_FILE = 127


@dataclass(frozen=True)
class Blame:
    """Who ended the job. Without a rank it was a whole node, and `words` say what happened there."""

    rank: int | None = None
    node: int | None = None
    """Its number in the plan."""
    exit_code: int | None = None
    signal: int | None = None
    aborted: bool = False
    """The rank called MPI_Abort, with `exit_code`."""
    words: str = ""


def blame(said: str, plan: LaunchPlan) -> Blame | None:
    """Whom the launcher names in the end of its log; None where it names nobody."""
    return next((found for reader in _READERS if (found := reader(said, plan)) is not None), None)


def _signal(said: str, plan: LaunchPlan) -> Blame | None:
    found = _any_signal(said, plan)
    return None if found is None or found.signal == signal.SIGTERM else found


def _any_signal(said: str, plan: LaunchPlan) -> Blame | None:
    """SIGTERM may be mpirun's own, sent to the ranks when it lost something else."""
    found = _BY_SIGNAL.search(said)
    return found and Blame(int(found[1]), _node_of(int(found[1]), plan), signal=int(found[3]))


def _abort(said: str, plan: LaunchPlan) -> Blame | None:
    found = _BY_ABORT.search(said)
    if found is None:
        return None
    code = int(found[3]) & 0xFF
    if found[2] != "MPI_COMM_WORLD":  # the number is that of a group of ranks
        return Blame(exit_code=code, aborted=True, words=f"A rank called MPI_Abort with error code {found[3]}.")
    return Blame(int(found[1]), _node_of(int(found[1]), plan), exit_code=code, aborted=True)


def _exit_code(said: str, plan: LaunchPlan) -> Blame | None:
    found = _BY_EXIT_CODE.search(said)
    return found and Blame(int(found[1]), _node_of(int(found[1]), plan), exit_code=int(found[2]))


def _not_started(said: str, plan: LaunchPlan) -> Blame | None:
    found = _NOT_STARTED.search(said)
    if found is None:
        return None
    words = f"{found[1]} cannot be run on node {_named(found[2], plan)}."
    return Blame(int(found[3]), _node_of(int(found[3]), plan), exit_code=_NO_FILE, words=words)


def _no_daemon(said: str, plan: LaunchPlan) -> Blame | None:
    found = _NO_DAEMON.search(said)
    if found is None:
        return None
    words = f"Node {_named(found[1], plan)} did not start its part of the run: {found[2]}"
    return Blame(node=_node_at(found[1], plan), words=words)


def _lost_daemon(said: str, plan: LaunchPlan) -> Blame | None:
    found = _LOST_DAEMON.search(said)
    if found is None:
        return None
    words = f"The connection to node {_named(found[1], plan)} was lost: its MPI daemon, orted, is gone."
    return Blame(node=_node_at(found[1], plan), words=words)


def _lost_starter(said: str, plan: LaunchPlan) -> Blame | None:
    if _NO_START not in said:
        return None
    return Blame(words="mpirun lost a process by which it starts the MPI daemon, orted, of a node.")


_READERS: tuple[Callable[[str, LaunchPlan], Blame | None], ...] = (
    _signal,
    _abort,
    _exit_code,
    _not_started,
    _no_daemon,
    _lost_daemon,
    _lost_starter,
    _any_signal,
)


def _node_of(rank: int, plan: LaunchPlan) -> int | None:
    return next((number for number, node in enumerate(plan.nodes) if rank in node.ranks), None)


def _node_at(address: str, plan: LaunchPlan) -> int | None:
    return next((number for number, node in enumerate(plan.nodes) if node.address == address), None)


def _named(address: str, plan: LaunchPlan) -> str:
    number = _node_at(address, plan)
    name = "" if number is None else plan.nodes[number].name
    return f"{name} ({address})" if name else address
