"""Finds out why a process of a run failed, from its wait status, logs, container, ports and disk."""

import errno
import os
import signal
from collections.abc import Sequence

from runyard.core.errors import Json
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import ProcessSpec
from runyard.node.containers.task_container import TaskContainer
from runyard.node.mpi.failure import parse_mpirun_failure
from runyard.node.mpi.open_mpi import INSTALL_IN_IMAGE
from runyard.node.network.ports import find_foreign_listener, says_address_in_use
from runyard.node.processes.exit_report import (
    ExitReport,
    describe_rank_failure,
    describe_wait_status,
    error_report,
    failed_report,
    read_last_lines,
    read_log_tail,
    report_exit,
    signal_of_shell,
)
from runyard.node.shipping.growing_files import noted_full_disk
from runyard.node.supervisor.launch import Launch, process_log
from runyard.node.task_folder import RESERVE_BYTES, rank_log

_ON_CPU = "takes the CPU"
_NO_SPACE = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
_CUDA_WORDS = ("CUDA", "cuda", "cuDNN", "cudnn", "NVIDIA", "libcublas")


def diagnose_start(launch: Launch) -> ExitReport | None:
    """Report of a task whose container could not be made, or could not start its processes; None if it did."""
    container = launch.container
    if container is None:
        return None
    if container.failure is not None:
        return error_report("Starting", container.failure)
    found = next(iter(container.events.not_started.items()), None)
    if found is None:
        return None
    name, why = found
    if name == "-":
        return failed_report("Starting", f"The run's container could not start its processes: {why}.")
    hint = f" {INSTALL_IN_IMAGE}" if why.startswith("mpirun") else ""
    return failed_report("Starting", f"The script could not be started in the image: {why}.{hint}", "UserError")


def diagnose_exit(launch: Launch, spec: ProcessSpec, status: int, *, memory_ran_out: bool) -> ExitReport:
    """Report of a task whose process `spec` ended with that wait status and so ended the task."""
    folder = launch.folder
    is_full = folder.free_bytes() < RESERVE_BYTES
    log = process_log(folder, spec)
    is_oom = memory_ran_out or bool(launch.container and launch.container.events.out_of_memory_kills)
    report = report_exit(status, log, rank=spec.rank, memory_ran_out=is_oom)
    report.warnings += [notice.removeprefix("Runyard: ") for notice in launch.plan.notices if _ON_CPU in notice]
    if report.outcome != "failed":
        return report
    report.log = spec.log
    if spec.role == "launcher":
        _diagnose_launcher(report, launch, read_log_tail(log), status, memory_ran_out=is_oom)
    if launch.container is not None:
        _diagnose_container(report, launch.container, launch.plan.container.memory_bytes)
    _diagnose_taken_port(report, launch)
    _add_missing_gpu_hint(report, launch.plan.notices)
    add_full_disk_hint(report, is_full=is_full, was_met=noted_full_disk(folder.journals))
    return report


def _add_missing_gpu_hint(report: ExitReport, notices: Sequence[str]) -> None:
    """Add to the error of a script that needs CUDA that the run was given no GPU."""
    no_gpu = next((notice for notice in notices if _ON_CPU in notice), "")
    message = str((report.error or {}).get("message", ""))
    if report.error and no_gpu and any(word in message for word in _CUDA_WORDS):
        report.error["message"] = f"{message.rstrip('.')}. {no_gpu.removeprefix('Runyard: ')}"


def add_full_disk_hint(report: ExitReport, *, is_full: bool, was_met: bool) -> None:
    """Append a full-disk hint to the error: the script's log may have had no space for the reason.

    `is_full`: disk is full now. `was_met`: the script recorded a full-disk error.
    """
    if report.error is None:
        return
    message = str(report.error["message"])
    if is_full:
        hint = "There is no space left on the node's disk: free some, or write less."
    elif was_met or any(text in message for text in _NO_SPACE):
        hint = "A disk that the script writes to was full: free some space there, or write less."
    else:
        return
    report.error["message"] = f"{message.rstrip('.')}. {hint}"


def _diagnose_container(report: ExitReport, container: TaskContainer, memory_bytes: int | None) -> None:
    """Report a container that was ended from outside, or whose memory limit was reached."""
    events = container.events
    if events.killed or events.asked is not None:
        known = container.exit_details()
        report.oom = report.oom or bool(known.get("oom"))
        if not report.oom:
            report.error = {"code": "ServiceError", "message": _ended_from_outside(events.asked, known)}
            report.error |= {"cause": FailureCause.ENGINE_FAILED} if "error" in known else {}
    if report.oom and memory_bytes:
        limit = f"its container may use {memory_bytes >> 20} MiB, by the docker arguments of the run"
        text = f"User program was killed: out of memory, since {limit}. Use smaller batches or allow it more."
        report.error = {"code": "UserError", "message": text}


def _ended_from_outside(asked: int | None, known: Json) -> str:
    how = "ended" if asked is None else f"asked to stop (signal {asked})"
    if "error" in known:
        return f"The run's container was {how} since its engine was stopped: {known['error']}."
    return f"The run's container was {how} from outside: by its engine, or by somebody who uses it."


def _diagnose_launcher(report: ExitReport, launch: Launch, output: str, status: int, *, memory_ran_out: bool) -> None:
    """Report the rank or node that mpirun names as the cause of its failure."""
    plan = launch.plan
    found = parse_mpirun_failure(output, plan)
    if found is None:
        message = f"The launcher of the ranks, mpirun, failed: {describe_wait_status(status)}."
        report.rank, report.error = None, {"code": "UserError", "message": message}
        return
    report.rank, report.signal = found.rank, found.signal
    report.exit_code = found.exit_code if found.signal is None else 128 + found.signal
    report.failed_node = found.node
    report.oom = memory_ran_out and signal.SIGKILL in (found.signal, signal_of_shell(found.exit_code))
    if found.rank is None:
        report.error = {"code": "UserError", "message": found.words}
        return
    report.log, report.tail = f"azureml-logs/{rank_log(launch.folder, found.rank).name}", ""
    raised = ""
    if found.rank in plan.here.ranks:
        kept = read_last_lines(rank_log(launch.folder, found.rank))
        report.tail, raised = kept["tail"], kept["raised"]
    report.error = {"code": "UserError", "message": found.words or describe_rank_failure(report, raised)}


def _diagnose_taken_port(report: ExitReport, launch: Launch) -> None:
    """Report the process that took a port of the run between its choice and the script's bind."""
    plan, roster = launch.plan, launch.roster
    ports = (roster[plan.node].get("ports") or {}) if roster else {}
    has_own_network = any(facts.get("network") is not None for facts in roster or ())
    if not ports or has_own_network or not says_address_in_use(report.tail):
        return
    holder = find_foreign_listener(list(ports.values()), plan.attempt_id)
    if holder is not None:
        text = f"Port {holder.port} was free when it was chosen for the run; {holder} took it before the run bound it."
        report.error = {"code": "PortTaken", "message": text}
