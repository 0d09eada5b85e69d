"""Parses what mpirun of Open MPI 4 prints when a job fails."""

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass

from runyard.core.records.launch_plan import LaunchPlan

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
class MpiFailure:
    """The rank that ended the job. Without a rank it was a node, and `words` say what happened there."""

    rank: int | None = None
    node: int | None = None
    """Its number in the plan."""
    exit_code: int | None = None
    signal: int | None = None
    aborted: bool = False
    """The rank called MPI_Abort, with `exit_code`."""
    words: str = ""


def parse_mpirun_failure(output: str, plan: LaunchPlan) -> MpiFailure | None:
    """Find the failure in the tail of mpirun's log; None where it names no rank or node."""
    return next((found for reader in _READERS if (found := reader(output, plan)) is not None), None)


def _signal(output: str, plan: LaunchPlan) -> MpiFailure | None:
    found = _any_signal(output, plan)
    return None if found is None or found.signal == signal.SIGTERM else found


def _any_signal(output: str, plan: LaunchPlan) -> MpiFailure | None:
    """A rank ended by a signal. SIGTERM may be mpirun's own, sent to the ranks after another failure."""
    found = _BY_SIGNAL.search(output)
    return found and MpiFailure(int(found[1]), _node_of(int(found[1]), plan), signal=int(found[3]))


def _abort(output: str, plan: LaunchPlan) -> MpiFailure | None:
    found = _BY_ABORT.search(output)
    if found is None:
        return None
    code = int(found[3]) & 0xFF
    if found[2] != "MPI_COMM_WORLD":  # the number is that of a group of ranks
        return MpiFailure(exit_code=code, aborted=True, words=f"A rank called MPI_Abort with error code {found[3]}.")
    return MpiFailure(int(found[1]), _node_of(int(found[1]), plan), exit_code=code, aborted=True)


def _exit_code(output: str, plan: LaunchPlan) -> MpiFailure | None:
    found = _BY_EXIT_CODE.search(output)
    return found and MpiFailure(int(found[1]), _node_of(int(found[1]), plan), exit_code=int(found[2]))


def _not_started(output: str, plan: LaunchPlan) -> MpiFailure | None:
    found = _NOT_STARTED.search(output)
    if found is None:
        return None
    words = f"{found[1]} cannot be run on node {_named(found[2], plan)}."
    return MpiFailure(int(found[3]), _node_of(int(found[3]), plan), exit_code=_NO_FILE, words=words)


def _no_daemon(output: str, plan: LaunchPlan) -> MpiFailure | None:
    found = _NO_DAEMON.search(output)
    if found is None:
        return None
    words = f"Node {_named(found[1], plan)} did not start its part of the run: {found[2]}"
    return MpiFailure(node=_node_at(found[1], plan), words=words)


def _lost_daemon(output: str, plan: LaunchPlan) -> MpiFailure | None:
    found = _LOST_DAEMON.search(output)
    if found is None:
        return None
    words = f"The connection to node {_named(found[1], plan)} was lost: its MPI daemon, orted, is gone."
    return MpiFailure(node=_node_at(found[1], plan), words=words)


def _lost_starter(output: str, plan: LaunchPlan) -> MpiFailure | None:
    if _NO_START not in output:
        return None
    return MpiFailure(words="mpirun lost a process by which it starts the MPI daemon, orted, of a node.")


_READERS: tuple[Callable[[str, LaunchPlan], MpiFailure | None], ...] = (
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
