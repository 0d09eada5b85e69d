"""Why a process of a run ended as it did, from what it and others left behind."""

import errno
import os
import signal
from collections.abc import Sequence

from runyard.errors import Json
from runyard.model.causes import Cause
from runyard.model.plan import ProcessSpec
from runyard.node import ending as ends
from runyard.node.attempt import RESERVE_BYTES
from runyard.node.containers.part_container import PartContainer
from runyard.node.ending import Ending
from runyard.node.journals import met_full_disk
from runyard.node.mpi.launching import IN_IMAGES
from runyard.node.mpi.outcome import blame
from runyard.node.ports import says_in_use, stranger_on
from runyard.node.rank_logs import log_of_rank
from runyard.node.script import Launch, log_file

_ON_CPU = "takes the CPU"
_NO_SPACE = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
_OF_CUDA = ("CUDA", "cuda", "cuDNN", "cudnn", "NVIDIA", "libcublas")


def why_not_started(launch: Launch) -> Ending | None:
    """The end of a part whose container could not be made, or could not start what it is for."""
    container = launch.container
    if container is None:
        return None
    if container.failure is not None:
        return ends.with_error("Starting", container.failure)
    found = next(iter(container.news.not_started.items()), None)
    if found is None:
        return None
    name, why = found
    if name == "-":
        return ends.failed("Starting", f"The run's container could not start its processes: {why}.")
    hint = f" {IN_IMAGES}" if why.startswith("mpirun") else ""
    return ends.failed("Starting", f"The script could not be started in the image: {why}.{hint}", "UserError")


def judge(launch: Launch, spec: ProcessSpec, status: int, *, memory_ran_out: bool) -> Ending:
    """The end of the part whose process `spec` has decided it, by its wait status."""
    folder = launch.folder
    is_full = folder.free_bytes() < RESERVE_BYTES
    log = log_file(folder, spec)
    ran_out = memory_ran_out or bool(launch.container and launch.container.news.out_of_memory_kills)
    ending = ends.ended_by_itself(status, log, rank=spec.rank, memory_ran_out=ran_out)
    ending.warnings += [notice.removeprefix("Runyard: ") for notice in launch.plan.notices if _ON_CPU in notice]
    if ending.outcome != "failed":
        return ending
    ending.log = spec.log
    if spec.role == "launcher":
        _blame_a_rank(ending, launch, ends.last_of(log), status, memory_ran_out=ran_out)
    if launch.container is not None:
        _blame_container(ending, launch.container, launch.plan.container.memory_bytes)
    _name_port_thief(ending, launch)
    _name_missing_gpu(ending, launch.plan.notices)
    name_full_disk(ending, is_full=is_full, was_met=met_full_disk(folder.journals))
    return ending


def _name_missing_gpu(ending: Ending, notices: Sequence[str]) -> None:
    """A script that asks for CUDA fails where the run was given no GPU, as its log said at the start."""
    said = next((notice for notice in notices if _ON_CPU in notice), "")
    message = str((ending.error or {}).get("message", ""))
    if ending.error and said and any(word in message for word in _OF_CUDA):
        ending.error["message"] = f"{message.rstrip('.')}. {said.removeprefix('Runyard: ')}"


def name_full_disk(ending: Ending, *, is_full: bool, was_met: bool) -> None:
    """The log of a script may have had no room for the reason, and by now there may be room again.

    `is_full`: the node's disk is, now. `was_met`: the script noted that a full disk ended it.
    """
    if ending.error is None:
        return
    message = str(ending.error["message"])
    if is_full:
        said = "There is no space left on the node's disk: free some, or write less."
    elif was_met or any(text in message for text in _NO_SPACE):
        said = "A disk that the script writes to was full: free some space there, or write less."
    else:
        return
    ending.error["message"] = f"{message.rstrip('.')}. {said}"


def _blame_container(ending: Ending, container: PartContainer, memory_bytes: int | None) -> None:
    """Somebody may have ended the container with all that was in it; else its own limit may have been reached."""
    news = container.news
    if news.killed or news.asked is not None:
        known = container.last_words()
        ending.oom = ending.oom or bool(known.get("oom"))
        if not ending.oom:
            ending.error = {"code": "ServiceError", "message": _ended_from_outside(news.asked, known)}
            ending.error |= {"cause": Cause.ENGINE_FAILED} if "error" in known else {}
    if ending.oom and memory_bytes:
        limit = f"its container may use {memory_bytes >> 20} MiB, by the docker arguments of the run"
        said = f"User program was killed: out of memory, since {limit}. Use smaller batches or allow it more."
        ending.error = {"code": "UserError", "message": said}


def _ended_from_outside(asked: int | None, known: Json) -> str:
    how = "ended" if asked is None else f"asked to stop (signal {asked})"
    if "error" in known:
        return f"The run's container was {how} since its engine was stopped: {known['error']}."
    return f"The run's container was {how} from outside: by its engine, or by somebody who uses it."


def _blame_a_rank(ending: Ending, launch: Launch, said: str, status: int, *, memory_ran_out: bool) -> None:
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
    ending.oom = memory_ran_out and found.signal == signal.SIGKILL
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
