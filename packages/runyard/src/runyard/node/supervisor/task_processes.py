import os
import time
from datetime import UTC, datetime

from runyard.core.errors import Json
from runyard.core.records.launch_plan import ProcessSpec
from runyard.node.processes.event_loop import now
from runyard.node.processes.exit_report import (
    ExitReport,
    canceled_report,
    describe_os_error,
    failed_report,
    read_last_lines,
    stopped_report,
    unknown_report,
)
from runyard.node.processes.exit_tracker import PROCESS_FILE, UNKNOWN_STATUS, ExitTracker
from runyard.node.processes.process_tree import ProcessTree
from runyard.node.processes.procfs import count_oom_kills
from runyard.node.processes.stack_dump import DUMP_SECONDS, dump_stacks
from runyard.node.supervisor.exit_diagnosis import diagnose_exit, diagnose_start
from runyard.node.supervisor.launch import Launch
from runyard.node.supervisor.loop import SupervisorLoop
from runyard.node.task_folder import list_ranks, rank_log


class TaskProcesses:
    """Starts the processes of a task, waits for them, and reports how they ended.

    All essential processes must succeed; the first that fails ends the task. When they have succeeded, processes that
    serve other nodes go on until the task is asked to stop.
    """

    def __init__(self, launch: Launch, loop: SupervisorLoop, tree: ProcessTree, exits: ExitTracker) -> None:
        self._launch, self._loop, self._tree, self._exits = launch, loop, tree, exits
        self._plan, self._folder = launch.plan, launch.folder
        self._processes: dict[int, ProcessSpec] = {}
        self._is_followed = False

    def run(self) -> ExitReport:
        """Start the processes and wait for their end."""
        limit = self._plan.max_seconds
        facts: Json = {
            "at": time.time(),
            "deadline": None if limit is None else now() + limit,
            "out_of_memory_kills": count_oom_kills(),
            "prepared": self._launch.prepared.to_json(),
            "roster": list(self._launch.roster),
        }
        try:
            self._processes = self._start(facts)
        except OSError as e:
            self._tree.end(0)
            return failed_report("Starting", f"The script could not be started: {describe_os_error(e)}", "UserError")
        if self._await_container():
            if (report := diagnose_start(self._launch)) is not None:
                self._tree.end(0)
                return report
            self._report_running()
        return self._wait(facts)

    def follow(self, facts: Json) -> ExitReport:
        """Wait for processes that an earlier supervisor started; `facts` are those that it wrote."""
        self._is_followed = True
        self._processes = self._exits.follow(self._plan.here.processes)
        self._report_running()
        return self._wait(facts)

    def _start(self, facts: Json) -> dict[int, ProcessSpec]:
        launch, specs = self._launch, self._plan.here.processes
        launch.begin_logs()
        if launch.container is None and specs:
            starts = [(spec, launch.spawn_spec_of(spec)) for spec in specs]
            return self._exits.start(starts, facts, launch.enter)
        self._folder.write(PROCESS_FILE, facts)
        return {} if launch.container is None else launch.start_in_container(launch.container)

    def _wait(self, facts: Json) -> ExitReport:
        deadline = facts["deadline"]
        self._loop.wait_until(self._is_decided, deadline)
        if self._waits_for_others():
            self._loop.report_queue.report("done")
            self._loop.wait_until(self._is_over, deadline)
        # Read only after a failure: it takes the kernel longer than most of what a short run needs.
        memory_ran_out = self._has_failed() and count_oom_kills() > facts["out_of_memory_kills"]
        return self._end(memory_ran_out=memory_ran_out, deadline=deadline)

    def _await_container(self) -> bool:
        """Wait until the container has started its processes. False where a stop request came first."""
        container = self._launch.container
        if container is None or not self._processes:
            return True
        self._loop.wait_until(container.has_reported)
        return container.has_reported()

    def _end(self, *, memory_ran_out: bool, deadline: float | None) -> ExitReport:
        stop = self._loop.stop
        if self._has_failed() or self._has_ended_well():
            # Also when a stop request came at the same moment: it had no effect.
            report = self._with_ranks(self._diagnose(memory_ran_out))
            self._loop.report_failing(report)
            self._tree.end(self._loop.grace(), strays=self._is_followed)
        elif stop is not None:
            self._tree.end(self._loop.grace())
            report = stopped_report(stop.end_as, "Running")
        else:
            report = self._timed_out(deadline or now())
        return self._with_ranks(report)

    def _with_ranks(self, report: ExitReport) -> ExitReport:
        """Add exit codes and last lines of the ranks, where known."""
        report.exits = {
            str(spec.rank): _exit_code_and_signal(status)
            for spec, status in self._statuses()
            if status not in (None, UNKNOWN_STATUS)
        }
        if self._plan.here.ranks and report.outcome != "completed":
            logs = {rank: rank_log(self._folder, rank) for rank in self._plan.here.ranks}
            report.last_lines = {str(rank): read_last_lines(log) for rank, log in logs.items()}
        return report

    def _statuses(self) -> list[tuple[ProcessSpec, int | None]]:
        status = self._loop.events.exit_status
        return [(spec, status(pid)) for pid, spec in self._processes.items()]

    def _has_failed(self) -> bool:
        return any(status for _, status in self._statuses())

    def _is_decided(self) -> bool:
        """Tell whether all essential processes have succeeded, or any process has failed."""
        return self._has_failed() or all(status == 0 for spec, status in self._statuses() if spec.is_essential)

    def _is_over(self) -> bool:
        """Tell whether nothing is left to wait for. A task without processes, and one whose ./outputs other nodes write
        to, goes on until it is asked to stop."""
        return self._has_failed() or (self._have_all_ended() and not self._holds_shared_outputs())

    def _has_ended_well(self) -> bool:
        if len(self._plan.nodes) == 1:
            return self._is_decided()
        stop = self._loop.stop
        is_stopping = stop is not None and stop.end_as == "completed"
        return self._have_all_ended() and (is_stopping or not self._holds_shared_outputs())

    def _have_all_ended(self) -> bool:
        return bool(self._processes) and all(status == 0 for _, status in self._statuses())

    def _holds_shared_outputs(self) -> bool:
        return self._plan.shares_outputs and self._plan.node == 0

    def _waits_for_others(self) -> bool:
        """Tell whether this node's work is done while other nodes may need what still runs here."""
        return len(self._plan.nodes) > 1 and self._is_decided() and not self._is_over()

    def _report_running(self) -> None:
        first = next(iter(self._processes), 0)
        facts: Json = {"pid": first if first > 0 else None, "lock": self._launch.prepared.lock}
        if self._plan.is_distributed:
            facts["ranks"] = list_ranks(self._plan)
        started_at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        if self._plan.is_distributed or self._is_followed:
            self._loop.report_queue.report("running", started_at=started_at, **facts)
        else:
            self._loop.report_queue.report_running(started_at=started_at, **facts)

    def _diagnose(self, memory_ran_out: bool) -> ExitReport:
        found = self._statuses()
        spec, status = next((pair for pair in found if pair[1]), found[0])
        if status == UNKNOWN_STATUS:
            return unknown_report(spec.rank, spec.log)
        return diagnose_exit(self._launch, spec, status or 0, memory_ran_out=memory_ran_out)

    def _timed_out(self, deadline: float) -> ExitReport:
        logs = dump_stacks(self._tree.living(), self._folder.std)
        if len(self._plan.nodes) > 1:
            # Ending these processes may end others elsewhere, whose nodes dump their stacks first.
            self._loop.wait_until(lambda: False, deadline + DUMP_SECONDS + 1, ignore_cancel=True)
        self._tree.end(self._loop.grace())
        message = f"The run took longer than max_run_duration_seconds ({self._plan.max_seconds}) and was ended."
        if logs:
            message += f" What each process was doing is at the end of its log: {', '.join(logs)}."
        return canceled_report("Running", message)


def _exit_code_and_signal(status: int | None) -> list[int | None]:
    code = os.waitstatus_to_exitcode(status or 0)
    return [None, -code] if code < 0 else [code, None]
