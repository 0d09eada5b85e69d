"""Why a process of a run ended as it did, from what it and others left behind."""

from runyard.model.plan import ProcessSpec
from runyard.node import ending as ends
from runyard.node.attempt import RESERVE_BYTES
from runyard.node.ending import Ending
from runyard.node.mpi.outcome import blame
from runyard.node.ports import says_in_use, stranger_on
from runyard.node.rank_logs import log_of_rank
from runyard.node.script import Launch, log_file


def judge(launch: Launch, spec: ProcessSpec, status: int, *, memory_ran_out: bool) -> Ending:
    """The end of the part whose process `spec` has decided it, by its wait status."""
    folder = launch.folder
    disk_is_full = folder.free_bytes() < RESERVE_BYTES
    log = log_file(folder, spec)
    ending = ends.ended_by_itself(status, log, rank=spec.rank, memory_ran_out=memory_ran_out, disk_is_full=disk_is_full)
    if ending.outcome != "failed":
        return ending
    ending.log = spec.log
    if spec.role == "launcher":
        _blame_a_rank(ending, launch, ends.last_of(log), status)
    _name_port_thief(ending, launch)
    return ending


def _blame_a_rank(ending: Ending, launch: Launch, said: str, status: int) -> None:
    """A launcher ends badly since a rank did; which one, it says itself."""
    plan = launch.plan
    found = blame(said, plan)
    if found is None:
        message = f"The launcher of the ranks, mpirun, failed: {ends.said_of(status)}."
        ending.rank, ending.error = None, {"code": "UserError", "message": message}
        return
    ending.rank, ending.signal = found.rank, found.signal
    ending.exit_code = found.exit_code if found.signal is None else 128 + found.signal
    ending.failed_node = found.node
    if found.rank is None:
        ending.error = {"code": "UserError", "message": found.words}
        return
    ending.log, ending.tail = f"azureml-logs/{log_of_rank(launch.folder, found.rank).name}", ""
    raised = ""
    if found.rank in plan.here.ranks:
        kept = ends.last_lines_of(log_of_rank(launch.folder, found.rank))
        ending.tail, raised = kept["tail"], kept["raised"]
    ending.error = {"code": "UserError", "message": found.words or ends.said_of_rank(ending, raised)}


def _name_port_thief(ending: Ending, launch: Launch) -> None:
    """A port that was free when it was chosen may have been taken before the script bound it."""
    plan, roster = launch.plan, launch.roster
    ports = (roster[plan.node].get("ports") or {}) if roster else {}
    has_own_network = any(facts.get("network") is not None for facts in roster or ())
    if not ports or has_own_network or not says_in_use(ending.tail):
        return
    holder = stranger_on(list(ports.values()), plan.attempt_id)
    if holder is not None:
        said = f"Port {holder.port} was free when it was chosen for the run; {holder} took it before the run bound it."
        ending.error = {"code": "PortTaken", "message": said}
