import os
import time
from datetime import UTC, datetime

from runyard.errors import Json
from runyard.model.plan import ProcessSpec
from runyard.node.background import Background
from runyard.node.ending import (
    Ending,
    as_told,
    canceled,
    failed,
    last_lines_of,
    obstacle,
    unknown,
)
from runyard.node.event_loop import now
from runyard.node.exits import PROCESS, UNKNOWN, Exits
from runyard.node.processes import out_of_memory_kills
from runyard.node.rank_logs import log_of_rank, ranks_of
from runyard.node.script import Launch
from runyard.node.stacks import DUMP_SECONDS, dump_stacks
from runyard.node.tree import ProcessTree
from runyard.node.verdict import judge, why_not_started


class Running:
    """Starts the processes of a task, waits for them, and reports how they ended.

    All essential processes must succeed; the first that fails ends the task. When they have succeeded, processes that
    serve other nodes go on until the task is asked to stop.
    """

    def __init__(self, launch: Launch, loop: Background, tree: ProcessTree, exits: Exits) -> None:
        self._launch, self._loop, self._tree, self._exits = launch, loop, tree, exits
        self._plan, self._folder = launch.plan, launch.folder
        self._processes: dict[int, ProcessSpec] = {}
        self._is_followed = False

    def run(self) -> Ending:
        """Start the processes and wait for their end."""
        limit = self._plan.max_seconds
        facts: Json = {
            "at": time.time(),
            "deadline": None if limit is None else now() + limit,
            "out_of_memory_kills": out_of_memory_kills(),
            "prepared": self._launch.prepared.to_json(),
            "roster": list(self._launch.roster),
        }
        try:
            self._processes = self._start(facts)
        except OSError as e:
            self._tree.end(0)
            return failed("Starting", f"The script could not be started: {obstacle(e)}", "UserError")
        if self._await_container():
            if (report := why_not_started(self._launch)) is not None:
                self._tree.end(0)
                return report
            self._report_running()
        return self._wait(facts)

    def follow(self, facts: Json) -> Ending:
        """Wait for processes that an earlier supervisor started; `facts` are those that it wrote."""
        self._is_followed = True
        self._processes = self._exits.follow(self._plan.here.processes)
        self._report_running()
        return self._wait(facts)

    def _start(self, facts: Json) -> dict[int, ProcessSpec]:
        launch, specs = self._launch, self._plan.here.processes
        launch.begin_logs()
        if launch.container is None and specs:
            starts = [(spec, launch.start_of(spec)) for spec in specs]
            return self._exits.start(starts, facts, launch.enter)
        self._folder.write(PROCESS, facts)
        return {} if launch.container is None else launch.start_inside(launch.container)

    def _wait(self, facts: Json) -> Ending:
        deadline = facts["deadline"]
        self._loop.wait_until(self._is_decided, deadline)
        if self._waits_for_others():
            self._loop.deliveries.report("done")
            self._loop.wait_until(self._is_over, deadline)
        return self._end(memory_ran_out=out_of_memory_kills() > facts["out_of_memory_kills"], deadline=deadline)

    def _await_container(self) -> bool:
        """Wait until the container has started its processes. False where a stop request came first."""
        container = self._launch.container
        if container is None or not self._processes:
            return True
        self._loop.wait_until(container.has_spoken)
        return container.has_spoken()

    def _end(self, *, memory_ran_out: bool, deadline: float | None) -> Ending:
        stop = self._loop.stop
        if self._has_failed() or self._has_ended_well():
            # Also when a stop request came at the same moment: it had no effect.
            report = self._with_ranks(self._diagnose(memory_ran_out))
            self._loop.tell_failing(report)
            self._tree.end(self._loop.grace(), strays=self._is_followed)
        elif stop is not None:
            self._tree.end(self._loop.grace())
            report = as_told(stop.end_as, "Running")
        else:
            report = self._timed_out(deadline or now())
        return self._with_ranks(report)

    def _with_ranks(self, report: Ending) -> Ending:
        """Add exit codes and last lines of the ranks, where known."""
        report.exits = {
            str(spec.rank): _exit(status) for spec, status in self._statuses() if status not in (None, UNKNOWN)
        }
        if self._plan.here.ranks and report.outcome != "completed":
            logs = {rank: log_of_rank(self._folder, rank) for rank in self._plan.here.ranks}
            report.last_lines = {str(rank): last_lines_of(log) for rank, log in logs.items()}
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
        is_told = stop is not None and stop.end_as == "completed"
        return self._have_all_ended() and (is_told or not self._holds_shared_outputs())

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
            facts["ranks"] = ranks_of(self._plan)
        started_at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self._loop.deliveries.report("running", started_at=started_at, **facts)

    def _diagnose(self, memory_ran_out: bool) -> Ending:
        found = self._statuses()
        spec, status = next((pair for pair in found if pair[1]), found[0])
        if status == UNKNOWN:
            return unknown(spec.rank, spec.log)
        return judge(self._launch, spec, status or 0, memory_ran_out=memory_ran_out)

    def _timed_out(self, deadline: float) -> Ending:
        logs = dump_stacks(self._tree.living(), self._folder.std)
        if len(self._plan.nodes) > 1:
            # Ending these processes may end others elsewhere, whose nodes dump their stacks first.
            self._loop.wait_until(lambda: False, deadline + DUMP_SECONDS + 1, ignore_cancel=True)
        self._tree.end(self._loop.grace())
        said = f"The run took longer than max_run_duration_seconds ({self._plan.max_seconds}) and was ended."
        if logs:
            said += f" What each process was doing is at the end of its log: {', '.join(logs)}."
        return canceled("Running", said)


def _exit(status: int | None) -> list[int | None]:
    code = os.waitstatus_to_exitcode(status or 0)
    return [None, -code] if code < 0 else [code, None]
