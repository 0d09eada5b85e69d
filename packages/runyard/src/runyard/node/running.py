import os
import time
from datetime import UTC, datetime

from runyard.errors import Json
from runyard.model.plan import ProcessSpec
from runyard.node import ending as ends
from runyard.node.background import Background
from runyard.node.ending import Ending
from runyard.node.event_loop import now
from runyard.node.exits import PROCESS, UNKNOWN, Exits
from runyard.node.processes import out_of_memory_kills
from runyard.node.rank_logs import log_of_rank, ranks_of
from runyard.node.script import Launch
from runyard.node.stacks import DUMP_SECONDS, dump_stacks
from runyard.node.tree import ProcessTree
from runyard.node.verdict import judge, why_not_started


class Running:
    """The processes of a part, from their start to how they ended and why.

    All essential ones must end well; the first that does not decides. Once they have, those that serve others go on
    until the part is told to stop, since other nodes may still need them.
    """

    def __init__(self, launch: Launch, background: Background, tree: ProcessTree, exits: Exits) -> None:
        self._launch, self._background, self._tree, self._exits = launch, background, tree, exits
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
            return ends.failed("Starting", f"The script could not be started: {ends.obstacle(e)}", "UserError")
        if self._await_container():
            if (ending := why_not_started(self._launch)) is not None:
                self._tree.end(0)
                return ending
            self._report_running()
        return self._wait(facts)

    def follow(self, facts: Json) -> Ending:
        """Wait for the end of what an earlier supervisor started; `facts` are those that it left."""
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
        self._background.wait_until(self._is_decided, deadline)
        if self._waits_for_others():
            self._background.deliveries.report("done")
            self._background.wait_until(self._is_over, deadline)
        return self._end(memory_ran_out=out_of_memory_kills() > facts["out_of_memory_kills"], deadline=deadline)

    def _await_container(self) -> bool:
        """A container takes a moment. False where a wish to stop came first."""
        container = self._launch.container
        if container is None or not self._processes:
            return True
        self._background.wait_until(container.has_spoken)
        return container.has_spoken()

    def _end(self, *, memory_ran_out: bool, deadline: float | None) -> Ending:
        stop = self._background.stop
        if self._has_failed() or self._has_ended_well():
            # Also when a wish to stop came in the same moment: it changed nothing.
            ending = self._with_ranks(self._ended_by_itself(memory_ran_out))
            self._background.tell_failing(ending)
            self._tree.end(self._background.grace(), strays=self._is_followed)
        elif stop is not None:
            self._tree.end(self._background.grace())
            ending = ends.as_told(stop.end_as, "Running")
        else:
            ending = self._timed_out(deadline or now())
        return self._with_ranks(ending)

    def _with_ranks(self, ending: Ending) -> Ending:
        """With what is known by now of each rank."""
        ending.exits = {
            str(spec.rank): _exit(status) for spec, status in self._statuses() if status not in (None, UNKNOWN)
        }
        if self._plan.here.ranks and ending.outcome != "completed":
            logs = {rank: log_of_rank(self._folder, rank) for rank in self._plan.here.ranks}
            ending.last_lines = {str(rank): ends.last_lines_of(log) for rank, log in logs.items()}
        return ending

    def _statuses(self) -> list[tuple[ProcessSpec, int | None]]:
        status = self._background.loop.exit_status
        return [(spec, status(pid)) for pid, spec in self._processes.items()]

    def _has_failed(self) -> bool:
        return any(status for _, status in self._statuses())

    def _is_decided(self) -> bool:
        """All essential processes have ended, or one has failed."""
        return self._has_failed() or all(status == 0 for spec, status in self._statuses() if spec.is_essential)

    def _is_over(self) -> bool:
        """Nothing is left to wait for. A part without processes, and one where others write, is over when told so."""
        return self._has_failed() or (self._have_all_ended() and not self._keeps_outputs())

    def _has_ended_well(self) -> bool:
        if len(self._plan.nodes) == 1:
            return self._is_decided()
        stop = self._background.stop
        is_told = stop is not None and stop.end_as == "completed"
        return self._have_all_ended() and (is_told or not self._keeps_outputs())

    def _have_all_ended(self) -> bool:
        return bool(self._processes) and all(status == 0 for _, status in self._statuses())

    def _keeps_outputs(self) -> bool:
        return self._plan.shares_outputs and self._plan.node == 0

    def _waits_for_others(self) -> bool:
        """Its own work is done, but other nodes may need what still runs here."""
        return len(self._plan.nodes) > 1 and self._is_decided() and not self._is_over()

    def _report_running(self) -> None:
        first = next(iter(self._processes), 0)
        facts: Json = {"pid": first if first > 0 else None, "lock": self._launch.prepared.lock}
        if self._plan.is_distributed:
            facts["ranks"] = ranks_of(self._plan)
        started_at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self._background.deliveries.report("running", started_at=started_at, **facts)

    def _ended_by_itself(self, memory_ran_out: bool) -> Ending:
        found = self._statuses()
        spec, status = next((pair for pair in found if pair[1]), found[0])
        if status == UNKNOWN:
            return ends.unknown(spec.rank, spec.log)
        return judge(self._launch, spec, status or 0, memory_ran_out=memory_ran_out)

    def _timed_out(self, deadline: float) -> Ending:
        logs = dump_stacks(self._tree.living(), self._folder.std)
        if len(self._plan.nodes) > 1:
            # What ends here may end processes elsewhere, whose nodes want to see first what they were doing.
            self._background.wait_until(lambda: False, deadline + DUMP_SECONDS + 1, ignore_cancel=True)
        self._tree.end(self._background.grace())
        said = f"The run took longer than max_run_duration_seconds ({self._plan.max_seconds}) and was ended."
        if logs:
            said += f" What each process was doing is at the end of its log: {', '.join(logs)}."
        return ends.canceled("Running", said)


def _exit(status: int | None) -> list[int | None]:
    code = os.waitstatus_to_exitcode(status or 0)
    return [None, -code] if code < 0 else [code, None]
