"""Finds out why a process of a run failed, from its wait status, logs, container, ports and disk."""

import errno
import os
import signal
from collections.abc import Sequence

from runyard.errors import Json
from runyard.model.causes import Cause
from runyard.model.plan import ProcessSpec
from runyard.node.attempt import RESERVE_BYTES
from runyard.node.containers.part_container import PartContainer
from runyard.node.ending import (
    Ending,
    ended_by_itself,
    failed,
    last_lines_of,
    last_of,
    said_of,
    said_of_rank,
    with_error,
)
from runyard.node.journals import met_full_disk
from runyard.node.mpi.launching import IN_IMAGES
from runyard.node.mpi.outcome import blame
from runyard.node.ports import says_in_use, stranger_on
from runyard.node.rank_logs import log_of_rank
from runyard.node.script import Launch, log_file

_ON_CPU = "takes the CPU"
_NO_SPACE = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
_CUDA_WORDS = ("CUDA", "cuda", "cuDNN", "cudnn", "NVIDIA", "libcublas")


def why_not_started(launch: Launch) -> Ending | None:
    """Report of a task whose container could not be made, or could not start its processes; None if it did."""
    container = launch.container
    if container is None:
        return None
    if container.failure is not None:
        return with_error("Starting", container.failure)
    found = next(iter(container.news.not_started.items()), None)
    if found is None:
        return None
    name, why = found
    if name == "-":
        return failed("Starting", f"The run's container could not start its processes: {why}.")
    hint = f" {IN_IMAGES}" if why.startswith("mpirun") else ""
    return failed("Starting", f"The script could not be started in the image: {why}.{hint}", "UserError")


def judge(launch: Launch, spec: ProcessSpec, status: int, *, memory_ran_out: bool) -> Ending:
    """Report of a task whose process `spec` ended with that wait status and so ended the task."""
    folder = launch.folder
    is_full = folder.free_bytes() < RESERVE_BYTES
    log = log_file(folder, spec)
    is_oom = memory_ran_out or bool(launch.container and launch.container.news.out_of_memory_kills)
    report = ended_by_itself(status, log, rank=spec.rank, memory_ran_out=is_oom)
    report.warnings += [notice.removeprefix("Runyard: ") for notice in launch.plan.notices if _ON_CPU in notice]
    if report.outcome != "failed":
        return report
    report.log = spec.log
    if spec.role == "launcher":
        _blame_a_rank(report, launch, last_of(log), status, memory_ran_out=is_oom)
    if launch.container is not None:
        _blame_container(report, launch.container, launch.plan.container.memory_bytes)
    _name_port_thief(report, launch)
    _name_missing_gpu(report, launch.plan.notices)
    name_full_disk(report, is_full=is_full, was_met=met_full_disk(folder.journals))
    return report


def _name_missing_gpu(report: Ending, notices: Sequence[str]) -> None:
    """Add to the error of a script that needs CUDA that the run was given no GPU."""
    said = next((notice for notice in notices if _ON_CPU in notice), "")
    message = str((report.error or {}).get("message", ""))
    if report.error and said and any(word in message for word in _CUDA_WORDS):
        report.error["message"] = f"{message.rstrip('.')}. {said.removeprefix('Runyard: ')}"


def name_full_disk(report: Ending, *, is_full: bool, was_met: bool) -> None:
    """Add to the error that a disk was full: the script's log may have had no space for the reason.

    `is_full`: the node's disk is full now. `was_met`: the script noted that a full disk ended it.
    """
    if report.error is None:
        return
    message = str(report.error["message"])
    if is_full:
        said = "There is no space left on the node's disk: free some, or write less."
    elif was_met or any(text in message for text in _NO_SPACE):
        said = "A disk that the script writes to was full: free some space there, or write less."
    else:
        return
    report.error["message"] = f"{message.rstrip('.')}. {said}"


def _blame_container(report: Ending, container: PartContainer, memory_bytes: int | None) -> None:
    """Report a container that was ended from outside, or whose memory limit was reached."""
    news = container.news
    if news.killed or news.asked is not None:
        known = container.last_words()
        report.oom = report.oom or bool(known.get("oom"))
        if not report.oom:
            report.error = {"code": "ServiceError", "message": _ended_from_outside(news.asked, known)}
            report.error |= {"cause": Cause.ENGINE_FAILED} if "error" in known else {}
    if report.oom and memory_bytes:
        limit = f"its container may use {memory_bytes >> 20} MiB, by the docker arguments of the run"
        said = f"User program was killed: out of memory, since {limit}. Use smaller batches or allow it more."
        report.error = {"code": "UserError", "message": said}


def _ended_from_outside(asked: int | None, known: Json) -> str:
    how = "ended" if asked is None else f"asked to stop (signal {asked})"
    if "error" in known:
        return f"The run's container was {how} since its engine was stopped: {known['error']}."
    return f"The run's container was {how} from outside: by its engine, or by somebody who uses it."


def _blame_a_rank(report: Ending, launch: Launch, said: str, status: int, *, memory_ran_out: bool) -> None:
    """Report the rank or node that mpirun names as the cause of its failure."""
    plan = launch.plan
    found = blame(said, plan)
    if found is None:
        message = f"The launcher of the ranks, mpirun, failed: {said_of(status)}."
        report.rank, report.error = None, {"code": "UserError", "message": message}
        return
    report.rank, report.signal = found.rank, found.signal
    report.exit_code = found.exit_code if found.signal is None else 128 + found.signal
    report.failed_node = found.node
    report.oom = memory_ran_out and found.signal == signal.SIGKILL
    if found.rank is None:
        report.error = {"code": "UserError", "message": found.words}
        return
    report.log, report.tail = f"azureml-logs/{log_of_rank(launch.folder, found.rank).name}", ""
    raised = ""
    if found.rank in plan.here.ranks:
        kept = last_lines_of(log_of_rank(launch.folder, found.rank))
        report.tail, raised = kept["tail"], kept["raised"]
    report.error = {"code": "UserError", "message": found.words or said_of_rank(report, raised)}


def _name_port_thief(report: Ending, launch: Launch) -> None:
    """Report the process that took a port of the run between its choice and the script's bind."""
    plan, roster = launch.plan, launch.roster
    ports = (roster[plan.node].get("ports") or {}) if roster else {}
    has_own_network = any(facts.get("network") is not None for facts in roster or ())
    if not ports or has_own_network or not says_in_use(report.tail):
        return
    holder = stranger_on(list(ports.values()), plan.attempt_id)
    if holder is not None:
        said = f"Port {holder.port} was free when it was chosen for the run; {holder} took it before the run bound it."
        report.error = {"code": "PortTaken", "message": said}
