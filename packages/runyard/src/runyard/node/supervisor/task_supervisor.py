"""The supervisor of one node task: from the plan to the acknowledged end.

It holds the task's lock while it lives. All state that matters lies in the task's folder, so that, when a supervisor is
killed, the next one finds out how the task ended, or follows it to its end.
"""

import contextlib
import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from runyard.client import ConnectionPool
from runyard.core.errors import AttemptOver, EnvironmentFailed, Json, RunyardError
from runyard.core.plan_json import plan_from_json
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.records.launch_plan import LaunchPlan
from runyard.core.run_folders import environments_root
from runyard.data.fuse import kernel
from runyard.environments.builder import LocalEnvironments
from runyard.node.containers.supervisor import ContainerSupervisor
from runyard.node.data.stager import DataStager
from runyard.node.processes.event_loop import now
from runyard.node.processes.exit_report import (
    ExitReport,
    describe_os_error,
    failed_report,
    read_last_lines,
    stopped_report,
    unknown_report,
)
from runyard.node.processes.exit_tracker import PROCESS_FILE, ExitTracker
from runyard.node.processes.forked_task import ForkedTask, Notify
from runyard.node.processes.process_tree import ProcessTree
from runyard.node.processes.procfs import ProcessId, adopt_orphans, identify
from runyard.node.sdk_folder import ensure_sdk_folder
from runyard.node.shipping.artifact_uploader import non_utf8_names
from runyard.node.shipping.growing_files import warn_of_lost_lines
from runyard.node.stop_enforcer import OVERDUE_FILE
from runyard.node.supervisor.launch import Launch
from runyard.node.supervisor.loop import SupervisorLoop
from runyard.node.supervisor.preparation import MountAccess, PreparedTask, prepare, prepare_if_quick
from runyard.node.supervisor.task_processes import TaskProcesses
from runyard.node.supervisor.task_setup import READY_FILE, TaskSetup
from runyard.node.task_folder import OUTPUTS, TaskFolder, has_shared_outputs, list_ranks

_POLL_SECONDS, _RANK_END_SECONDS = 0.02, 1.0
_STEPS = {"environment": "Building the environment.", "data": "Fetching data."}


def supervise(
    folder: TaskFolder, lock: int, sdk: Path | None, keeper: ProcessId | None, connections: ConnectionPool
) -> bool:
    """Carry out the task. `lock`: the descriptor that holds its lock. `sdk`: the SDK's folder, if the agent has found
    it. `keeper`: the exit keeper above that agent. `connections`: idle ones to the service, which later tasks use too.
    Return True if nothing of the task is left in this process."""
    body = folder.read("plan.json")
    if body is None:
        return False
    plan = plan_from_json(body)
    folder.name_node_log(plan)
    return TaskSupervisor(folder, plan, lock, sdk, keeper, connections).run()


class TaskSupervisor:
    def __init__(
        self,
        folder: TaskFolder,
        plan: LaunchPlan,
        lock: int,
        sdk: Path | None,
        keeper: ProcessId | None,
        connections: ConnectionPool,
    ) -> None:
        self._folder, self._plan, self._lock, self._sdk = folder, plan, lock, sdk
        self._loop = SupervisorLoop(folder, plan, connections)
        self._data = DataStager(folder, plan, self)
        self._exits = ExitTracker(folder, self._loop.events, keeper)
        self._containers = ContainerSupervisor(folder, self.run_uninterrupted)
        self._tree = ProcessTree(
            folder,
            self.wait_until,
            self._loop.events.has_children,
            own=self._own_processes,
            followed=lambda: self._exits.followed,
            containers=self._containers,
        )
        self._setup = TaskSetup(folder, plan, self._loop, self._tree, self._containers)

    def run(self) -> bool:
        """Carry out the task. Return True if nothing of it is left in this process, so that it may take another."""
        was_supervised = self._folder.was_supervised()
        self._write_identity()
        adopt_orphans()
        self._folder.make_room()
        self._loop.listen()
        report = None
        try:
            report = (self._recover() if was_supervised else None) or self._report_errors(self._run_task)
            if report is not None:
                self._finish(report)
        except AttemptOver:
            report = None
            self._give_up()
        self._containers.remove()  # also one that an earlier supervisor had just asked for
        self._setup.close()
        self._folder.delete()
        if was_supervised or report is None or not self._left_nothing(report):
            return False
        self._loop.close()
        return True

    def _left_nothing(self, report: ExitReport) -> bool:
        """Tell whether the task can have left nothing in this process: its script ran to its own end, and it had no
        mounts, network or container, whose namespaces and helper processes end with this process."""
        plan, has_ended_itself = self._plan, report.outcome != "canceled" and report.exit_code is not None
        is_plain = not (plan.data or plan.is_distributed or plan.environment.image)
        return is_plain and has_ended_itself and not self._loop.events.has_children() and not self._folder.exists()

    def _write_identity(self) -> None:
        own = identify(os.getpid())
        facts: Json = {"pid": os.getpid(), "started": own.started if own else 0}
        try:
            self._folder.write("supervisor.json", facts)
        except OSError:  # the disk is full: use the space that an earlier supervisor reserved
            self._folder.free_own_reserve()
            self._folder.write("supervisor.json", facts)

    def _recover(self) -> ExitReport | None:
        """Report the end that an earlier supervisor left, or follow what it started to its end. None when the script
        was not started: then the task starts over."""
        self._loop.report_queue.resume_from_service()
        result = self._folder.read("result.json")
        if result is None and (started := self._find_started()) is not None:
            return self._report_errors(partial(self._follow, started))
        report = ExitReport(**result) if result is not None else self._data.saved_script_exit() or self._lost_report()
        if report is not None:
            self._loop.report_failing(report)
        self._tree.end(self._loop.capped(self._plan.cancel_grace_seconds))
        self._data.restore_state()
        if report is None:
            self._data.clear()
        if report is None or result is not None:
            return report
        self._loop.begin_finalizing()
        return self._data.finish(report)

    def _find_started(self) -> Json | None:
        """Facts that an earlier supervisor wrote about the processes that it started, if they can go on without it;
        else None."""
        started, processes = self._folder.read(PROCESS_FILE), self._plan.here.processes
        if started is None or self._data.saved_script_exit() is not None:
            return None
        self._exits.find(started, processes)
        if not self._exits.may_have_started(processes) or self._requested_report() is not None:
            return None
        if self._plan.is_distributed:
            return started if self._is_decided() else None
        if not self._exits.will_be_known(processes):
            return None
        is_over = None not in self._exits.statuses(processes)
        return started if is_over or self._data.are_mounts_alive() else None

    def _is_decided(self) -> bool:
        """Tell whether a task of a distributed run has done its work, or failed. What still runs cannot go on: its
        network, ports and launch server ended with the supervisor. Ranks that are about to end get a moment; a launcher
        does not, since it fails because of what it lost."""
        processes = self._plan.here.processes
        has_launcher = any(spec.role == "launcher" for spec in processes)
        until = now() + (0.0 if has_launcher else _RANK_END_SECONDS)
        essential = [spec for spec in processes if spec.is_essential]
        while None in self._exits.statuses(essential) and self._exits.has_keeper() and now() < until:
            self.wait_until(lambda: False, now() + _POLL_SECONDS, ignore_cancel=True)
        if any(self._exits.statuses(processes)):
            return self._loop.stop is None
        left = essential if self._exits.has_keeper() else processes
        return None not in self._exits.statuses(left)

    def _follow(self, started: Json) -> ExitReport:
        """Wait for processes that an earlier supervisor started; their logs and files are where they were."""
        self._data.restore_state()
        self._loop.output_watcher.watch()
        self._loop.output_watcher.sweep()
        prepared = PreparedTask.from_json(started["prepared"])
        launch = Launch(self._folder, self._plan, prepared, self._sdk or Path(), roster=started["roster"])
        return self._ended(TaskProcesses(launch, self._loop, self._tree, self._exits).follow(started), prepared)

    def _lost_report(self) -> ExitReport | None:
        started = self._folder.read(PROCESS_FILE)
        has_keeper = started is not None and bool(started.get("keeper"))
        if self._folder.read(READY_FILE) is None and (
            started is None or (has_keeper and not self._exits.may_have_started(self._plan.here.processes))
        ):
            return None
        if (requested := self._requested_report()) is not None:
            return requested
        if has_keeper and not self._plan.is_distributed and not self._tree.living():
            spec = self._plan.here.processes[0]
            return unknown_report(spec.rank, spec.log)
        message = "The node supervisor was killed while the script was running; its processes have been ended."
        lost = failed_report("Running", message)
        lost.lost = True
        if ranks := list_ranks(self._plan):
            # It is not known which rank ended first, if any: the task's first rank is named.
            lost.rank, _, lost.log = ranks[0]
            lost.tail = read_last_lines(self._folder.std / Path(lost.log).name)["tail"]
        return lost

    def _requested_report(self) -> ExitReport | None:
        """Report the requested end, where an earlier supervisor did not act on the request and was killed for that, or
        was killed after a cancel; else None."""
        stop, was_overdue = self._loop.stop, (self._folder.root / OVERDUE_FILE).exists()
        if stop is None or not (was_overdue or stop.end_as == "canceled"):
            return None
        report = stopped_report(stop.end_as, "Running")
        if was_overdue:
            node = self._plan.here.name or "the node"
            report.warnings.append(f"The supervisor of {node} did not stop; it was ended.")
        return report

    def _report_errors(self, run: Callable[[], ExitReport | None]) -> ExitReport | None:
        try:
            return run()
        except OSError as e:  # a full disk, or a limit of the machine: report why the run ended
            self._tree.end(self._loop.grace())
            return failed_report("Starting", f"The node could not go on with the run: {describe_os_error(e)}")
        except AttemptOver:
            raise
        except Exception as e:  # our own bug must not be reported as a killed supervisor
            with contextlib.suppress(OSError), self._folder.node_log.open("a", encoding="utf-8") as log:
                traceback.print_exc(file=log)
            self._tree.end(self._loop.grace())
            return failed_report("Starting", f"The node supervisor failed: {type(e).__name__}: {e}.")

    def _run_task(self) -> ExitReport | None:
        prepared = self._prepare()
        if isinstance(prepared, ExitReport):
            return prepared
        if self._plan.kind == "prepare":
            # Reported last: the service takes nothing of the attempt after it.
            self._loop.output_watcher.sweep()
            self._loop.deliver_all()
            self._loop.report_queue.report("prepared", environment_key=prepared.environment_key, lock=prepared.lock)
            self._loop.deliver_all()
            return None
        self._data.take(prepared.data)
        return self._ended(self._run_in_held_environment(prepared), prepared)

    def _ended(self, report: ExitReport, prepared: PreparedTask) -> ExitReport:
        """Upload the data and return the task's report, given that of its processes."""
        report.warnings += prepared.warnings
        self._loop.begin_finalizing()
        self._loop.report_failing(report)
        return self._data.finish(report)

    def _prepare(self) -> PreparedTask | ExitReport:
        self._loop.output_watcher.watch()
        if self._loop.stop is not None:  # requested before this supervisor began
            return stopped_report(self._loop.stop.end_as, "Preparing")
        at_once = prepare_if_quick(self._folder, self._plan)
        if at_once is not None:
            return at_once
        mounting = MountAccess()
        if self._plan.data:
            # Not earlier: mounts that an earlier supervisor left are cleaned up in the machine's mount namespace.
            # A container engine sees only the machine's own mounts.
            has_own = self._plan.environment.image is None and kernel.unshare_mounts()
            mounting = MountAccess(has_own, self._data.mounts.open_lifeline())
        step = "code"

        def on_message(message: Json) -> None:
            nonlocal step
            step = message.get("step", step)
            self._loop.report_queue.report("preparing", message=message.get("message") or _STEPS[step])

        forked = self.run_forked(
            lambda notify: prepare(self._folder, self._plan, mounting, notify).to_json(), on_message
        )
        if mounting.life >= 0:
            os.close(mounting.life)
        if self._loop.stop is not None:
            return stopped_report(self._loop.stop.end_as, "Preparing")
        if forked.done is not None:
            return PreparedTask.from_json(forked.done)
        died = {"code": "ServiceError", "message": f"The preparation of the run died in step '{step}'."}
        return ExitReport("failed", "Preparing", error=forked.error or died)

    def _run_in_held_environment(self, prepared: PreparedTask) -> ExitReport:
        """Run the processes while holding the environment's lock, so that it is not pruned."""
        built = BuiltEnvironment(prepared.environment_key, Path(prepared.python), prepared.lock, image=prepared.image)
        try:
            with LocalEnvironments(environments_root(self._folder.home), {}).hold(built) as held:
                return self._run_processes(prepared, held)
        except EnvironmentFailed as e:
            return failed_report("Starting", str(e))

    def _run_processes(self, prepared: PreparedTask, environment: int | None) -> ExitReport:
        here = self._plan.here
        self._folder.hold_reserve(max(len(here.processes), len(here.ranks)))
        sdk = self._sdk or ensure_sdk_folder(self._folder.home)
        try:
            launch = self._setup.launch(prepared, sdk, self.run_forked, self._fork)
        except AttemptOver:
            raise
        except RunyardError as e:
            return failed_report("Starting", str(e))
        if launch is None:
            return stopped_report(self._loop.stop.end_as if self._loop.stop else "canceled", "Starting")
        # The script keeps the environment's lock and the mounts open when this process is killed.
        held = (*([] if environment is None else [environment]), *self._data.mounts.life)
        return TaskProcesses(replace(launch, held=held), self._loop, self._tree, self._exits).run()

    def _finish(self, report: ExitReport) -> None:
        queue, uploader = self._loop.report_queue, self._loop.uploader
        self._loop.begin_finalizing()
        self._loop.report_failing(report)
        self._data.clear()
        self._folder.free_reserve()
        uploader.is_final = True
        try:
            self._folder.write("result.json", vars(report), durable=True)
        except OSError as e:
            report.warnings.append(f"The end could not be kept on the node's disk: {e}.")
        queue.sends_at_once = True
        self._loop.output_watcher.sweep()
        queue.ship()
        self._loop.output_watcher.hand_over()
        if not self._loop.is_all_delivered():
            queue.report("finalizing")
        self._loop.deliver_all()
        refused = {**uploader.refused, **queue.journals.refused, **queue.logs.refused}
        lost = warn_of_lost_lines(self._folder.journals)
        warnings = [*report.warnings, *self._containers.warnings, *queue.warnings, *lost]
        if not has_shared_outputs(self._folder):
            refused |= dict.fromkeys(non_utf8_names(self._folder.work, OUTPUTS), "its name is not UTF-8.")
        warnings += [f"{name} could not be delivered: {reason}" for name, reason in list(refused.items())[:10]]
        queue.report_end(**{**vars(report), "warnings": warnings, "undelivered": len(refused)})
        self._loop.deliver_all()

    def _give_up(self) -> None:
        """Kill everything: the run has ended or goes on elsewhere, and the service takes nothing more of this task."""
        self._loop.drop()
        self._tree.end(0)
        self._data.clear()

    def run_forked(self, work: Callable[[Notify], Json], on_message: Callable[[Json], None]) -> ForkedTask:
        """Run in a forked child until it is done, or the task is to stop. Unless it succeeds, kill what it started."""
        forked = self._fork(work, on_message)
        self._wait_for_child(forked)
        stop = self._loop.stop
        if forked.done is None or stop is not None:
            self._tree.end(0.0 if stop is None else stop.grace_seconds, strays=False)
        return forked

    def run_uninterrupted(self, work: Callable[[], Json], seconds: float) -> ForkedTask:
        """Run in a forked child for at most that long, ignoring stop requests. See `RunUninterrupted`."""
        forked = self._fork(lambda notify: work())
        self._wait_for_child(forked, now() + seconds, ignore_cancel=True)
        if not forked.is_over:
            os.kill(forked.pid, signal.SIGKILL)
        return forked

    def _fork(
        self, work: Callable[[Notify], Json], on_message: Callable[[Json], None] = lambda message: None
    ) -> ForkedTask:
        return ForkedTask(work, on_message, kept_out=(self._lock, *self._data.mounts.life))

    def _wait_for_child(
        self, forked: ForkedTask, deadline: float | None = None, *, ignore_cancel: bool = False
    ) -> None:
        self._loop.events.on_readable(forked, forked.read)
        self.wait_until(lambda: forked.is_over, deadline, ignore_cancel=ignore_cancel)
        self._loop.events.forget(forked)
        forked.close()

    def wait_until(
        self, is_done: Callable[[], bool], deadline: float | None = None, *, ignore_cancel: bool = False
    ) -> None:
        self._loop.wait_until(is_done, deadline, ignore_cancel=ignore_cancel)

    def _own_processes(self) -> set[int]:
        return {*self._data.mounts.pids, *self._setup.pids}

    def is_canceled(self) -> bool:
        return self._loop.stop is not None

    def exit_status(self, pid: int) -> int | None:
        return self._loop.events.exit_status(pid)

    def report_uploading(self, message: str) -> None:
        self._loop.report_queue.report("finalizing", message=message)
