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

from runyard.environments.making import Environments
from runyard.errors import AttemptOver, EnvironmentFailed, Json, RunyardError
from runyard.model.plan import LaunchPlan
from runyard.mounting import kernel
from runyard.node.assembly import READY, Assembly
from runyard.node.attempt import AttemptFolder
from runyard.node.background import Background
from runyard.node.containers.care import ContainerCare
from runyard.node.courier import names_that_are_no_text
from runyard.node.data.care import DataCare
from runyard.node.ending import (
    Ending,
    as_told,
    failed,
    last_lines_of,
    obstacle,
    unknown,
)
from runyard.node.errand import Errand, Tell
from runyard.node.event_loop import now
from runyard.node.exits import PROCESS, Exits
from runyard.node.journals import lost_lines
from runyard.node.outputs import OUTPUTS, shows_outputs_of_another
from runyard.node.overdue import OVERDUE
from runyard.node.preparation import Mounting, Prepared, prepare, prepared_at_once
from runyard.node.processes import ProcessId, adopt_orphans, identify
from runyard.node.rank_logs import ranks_of
from runyard.node.running import Running
from runyard.node.script import Launch
from runyard.node.sdk_folder import ensure_sdk_folder
from runyard.node.tree import ProcessTree
from runyard.planning.plan_json import plan_from_json
from runyard.ports.environments import BuiltEnvironment
from runyard.run_folders import environments_root

_POLL_SECONDS, _RANK_END_SECONDS = 0.02, 1.0
_STEPS = {"environment": "Building the environment.", "data": "Fetching data."}


def supervise(folder: AttemptFolder, lock: int, sdk: Path | None, keeper: ProcessId | None) -> None:
    """Carry out the task. `lock`: the descriptor that holds its lock. `sdk`: the SDK's folder, if the agent has found
    it. `keeper`: the exit keeper above that agent."""
    body = folder.read("plan.json")
    if body is not None:
        plan = plan_from_json(body)
        folder.name_node_log(plan)
        Supervisor(folder, plan, lock, sdk, keeper).run()


class Supervisor:
    def __init__(
        self, folder: AttemptFolder, plan: LaunchPlan, lock: int, sdk: Path | None, keeper: ProcessId | None
    ) -> None:
        self._folder, self._plan, self._lock, self._sdk = folder, plan, lock, sdk
        self._loop = Background(folder, plan)
        self._data = DataCare(folder, plan, self)
        self._exits = Exits(folder, self._loop.events, keeper)
        self._containers = ContainerCare(folder, self.run_aside)
        self._tree = ProcessTree(
            folder,
            self.wait_until,
            self._loop.events.has_children,
            own=self._own_processes,
            followed=lambda: self._exits.followed,
            containers=self._containers,
        )
        self._setup = Assembly(folder, plan, self._loop, self._tree, self._containers)

    def run(self) -> None:
        was_supervised = self._folder.was_supervised()
        self._write_identity()
        adopt_orphans()
        self._folder.make_room()
        self._loop.listen()
        try:
            report = (self._recover() if was_supervised else None) or self._report_errors(self._run_task)
            if report is not None:
                self._finish(report)
        except AttemptOver:
            self._give_up()
        self._containers.remove()  # also one that an earlier supervisor had just asked for
        self._setup.close()
        self._folder.delete()

    def _write_identity(self) -> None:
        own = identify(os.getpid())
        facts: Json = {"pid": os.getpid(), "started": own.started if own else 0}
        try:
            self._folder.write("supervisor.json", facts)
        except OSError:  # the disk is full: use the space that an earlier supervisor reserved
            self._folder.free_own_reserve()
            self._folder.write("supervisor.json", facts)

    def _recover(self) -> Ending | None:
        """Report the end that an earlier supervisor left, or follow what it started to its end. None when the script
        was not started: then the task starts over."""
        self._loop.deliveries.resume_from_service()
        result = self._folder.read("result.json")
        if result is None and (started := self._find_started()) is not None:
            return self._report_errors(partial(self._follow, started))
        report = Ending(**result) if result is not None else self._data.known_script_end() or self._lost_report()
        if report is not None:
            self._loop.tell_failing(report)
        self._tree.end(self._loop.capped(self._plan.cancel_grace_seconds))
        self._data.recall()
        if report is None:
            self._data.clear()
        if report is None or result is not None:
            return report
        self._loop.begin_end()
        return self._data.finish(report)

    def _find_started(self) -> Json | None:
        """Facts that an earlier supervisor wrote about the processes that it started, if they can go on without it;
        else None."""
        started, processes = self._folder.read(PROCESS), self._plan.here.processes
        if started is None or self._data.known_script_end() is not None:
            return None
        self._exits.find(started, processes)
        if not self._exits.may_have_started(processes) or self._requested_report() is not None:
            return None
        if self._plan.is_distributed:
            return started if self._is_decided() else None
        if not self._exits.are_kept(processes):
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

    def _follow(self, started: Json) -> Ending:
        """Wait for processes that an earlier supervisor started; their logs and files are where they were."""
        self._data.recall()
        self._loop.collection.watch()
        self._loop.collection.sweep()
        prepared = Prepared.from_json(started["prepared"])
        launch = Launch(self._folder, self._plan, prepared, self._sdk or Path(), roster=started["roster"])
        return self._ended(Running(launch, self._loop, self._tree, self._exits).follow(started), prepared)

    def _lost_report(self) -> Ending | None:
        started = self._folder.read(PROCESS)
        has_keeper = started is not None and bool(started.get("keeper"))
        if self._folder.read(READY) is None and (
            started is None or (has_keeper and not self._exits.may_have_started(self._plan.here.processes))
        ):
            return None
        if (requested := self._requested_report()) is not None:
            return requested
        if has_keeper and not self._plan.is_distributed and not self._tree.living():
            spec = self._plan.here.processes[0]
            return unknown(spec.rank, spec.log)
        message = "The node supervisor was killed while the script was running; its processes have been ended."
        lost = failed("Running", message)
        lost.lost = True
        if ranks := ranks_of(self._plan):
            # It is not known which rank ended first, if any: the task's first rank is named.
            lost.rank, _, lost.log = ranks[0]
            lost.tail = last_lines_of(self._folder.std / Path(lost.log).name)["tail"]
        return lost

    def _requested_report(self) -> Ending | None:
        """Report the requested end, where an earlier supervisor did not act on the request and was killed for that, or
        was killed after a cancel; else None."""
        stop, was_overdue = self._loop.stop, (self._folder.root / OVERDUE).exists()
        if stop is None or not (was_overdue or stop.end_as == "canceled"):
            return None
        report = as_told(stop.end_as, "Running")
        if was_overdue:
            node = self._plan.here.name or "the node"
            report.warnings.append(f"The supervisor of {node} did not stop; it was ended.")
        return report

    def _report_errors(self, run: Callable[[], Ending | None]) -> Ending | None:
        try:
            return run()
        except OSError as e:  # a full disk, or a limit of the machine: report why the run ended
            self._tree.end(self._loop.grace())
            return failed("Starting", f"The node could not go on with the run: {obstacle(e)}")
        except AttemptOver:
            raise
        except Exception as e:  # our own bug must not be reported as a killed supervisor
            with contextlib.suppress(OSError), self._folder.node_log.open("a", encoding="utf-8") as log:
                traceback.print_exc(file=log)
            self._tree.end(self._loop.grace())
            return failed("Starting", f"The node supervisor failed: {type(e).__name__}: {e}.")

    def _run_task(self) -> Ending | None:
        prepared = self._prepare()
        if isinstance(prepared, Ending):
            return prepared
        if self._plan.kind == "prepare":
            # Reported last: the service takes nothing of the attempt after it.
            self._loop.collection.sweep()
            self._loop.deliver_all()
            self._loop.deliveries.report("prepared", environment_key=prepared.environment_key, lock=prepared.lock)
            self._loop.deliver_all()
            return None
        self._data.take(prepared.data)
        return self._ended(self._run_in_held_environment(prepared), prepared)

    def _ended(self, report: Ending, prepared: Prepared) -> Ending:
        """Upload the data and return the task's report, given that of its processes."""
        report.warnings += prepared.warnings
        self._loop.begin_end()
        self._loop.tell_failing(report)
        return self._data.finish(report)

    def _prepare(self) -> Prepared | Ending:
        self._loop.collection.watch()
        if self._loop.stop is not None:  # requested before this supervisor began
            return as_told(self._loop.stop.end_as, "Preparing")
        at_once = prepared_at_once(self._folder, self._plan)
        if at_once is not None:
            return at_once
        mounting = Mounting()
        if self._plan.data:
            # Not earlier: mounts that an earlier supervisor left are cleaned up in the machine's mount namespace.
            # A container engine sees only the machine's own mounts.
            has_own = self._plan.environment.image is None and kernel.unshare_mounts()
            mounting = Mounting(has_own, self._data.mounts.open_life())
        step = "code"

        def on_message(news: Json) -> None:
            nonlocal step
            step = news.get("step", step)
            self._loop.deliveries.report("preparing", message=news.get("message") or _STEPS[step])

        forked = self.run_errand(
            lambda notify: prepare(self._folder, self._plan, mounting, notify).to_json(), on_message
        )
        if mounting.life >= 0:
            os.close(mounting.life)
        if self._loop.stop is not None:
            return as_told(self._loop.stop.end_as, "Preparing")
        if forked.done is not None:
            return Prepared.from_json(forked.done)
        died = {"code": "ServiceError", "message": f"The preparation of the run died in step '{step}'."}
        return Ending("failed", "Preparing", error=forked.error or died)

    def _run_in_held_environment(self, prepared: Prepared) -> Ending:
        """Run the processes while holding the environment's lock, so that it is not pruned."""
        built = BuiltEnvironment(prepared.environment_key, Path(prepared.python), prepared.lock, image=prepared.image)
        try:
            with Environments(environments_root(self._folder.home), {}).hold(built) as held:
                return self._run_processes(prepared, held)
        except EnvironmentFailed as e:
            return failed("Starting", str(e))

    def _run_processes(self, prepared: Prepared, environment: int | None) -> Ending:
        here = self._plan.here
        self._folder.hold_reserve(max(len(here.processes), len(here.ranks)))
        sdk = self._sdk or ensure_sdk_folder(self._folder.home)
        try:
            launch = self._setup.launch(prepared, sdk, self.run_errand, self._fork)
        except AttemptOver:
            raise
        except RunyardError as e:
            return failed("Starting", str(e))
        if launch is None:
            return as_told(self._loop.stop.end_as if self._loop.stop else "canceled", "Starting")
        # The script keeps the environment's lock and the mounts open when this process is killed.
        held = (*([] if environment is None else [environment]), *self._data.mounts.life)
        return Running(replace(launch, held=held), self._loop, self._tree, self._exits).run()

    def _finish(self, report: Ending) -> None:
        queue, uploader = self._loop.deliveries, self._loop.courier
        self._loop.begin_end()
        self._loop.tell_failing(report)
        self._data.clear()
        self._folder.free_reserve()
        uploader.is_final = True
        try:
            self._folder.write("result.json", vars(report), durable=True)
        except OSError as e:
            report.warnings.append(f"The end could not be kept on the node's disk: {e}.")
        queue.is_in_haste = True
        self._loop.collection.sweep()
        queue.ship()
        self._loop.collection.hand_over()
        if not self._loop.is_all_delivered():
            queue.report("finalizing")
        self._loop.deliver_all()
        refused = {**uploader.refused, **queue.journals.refused, **queue.logs.refused}
        lost = lost_lines(self._folder.journals)
        warnings = [*report.warnings, *self._containers.warnings, *queue.warnings, *lost]
        if not shows_outputs_of_another(self._folder):
            refused |= dict.fromkeys(names_that_are_no_text(self._folder.work, OUTPUTS), "its name is not UTF-8.")
        warnings += [f"{name} could not be delivered: {reason}" for name, reason in list(refused.items())[:10]]
        queue.report("ended", **{**vars(report), "warnings": warnings, "undelivered": len(refused)})
        self._loop.deliver_all()

    def _give_up(self) -> None:
        """Kill everything: the run has ended or goes on elsewhere, and the service takes nothing more of this task."""
        self._loop.drop()
        self._tree.end(0)
        self._data.clear()

    def run_errand(self, work: Callable[[Tell], Json], on_news: Callable[[Json], None]) -> Errand:
        """Run in a forked child until it is done, or the task is to stop. Unless it succeeds, kill what it started."""
        forked = self._fork(work, on_news)
        self._wait_for_child(forked)
        stop = self._loop.stop
        if forked.done is None or stop is not None:
            self._tree.end(0.0 if stop is None else stop.grace_seconds, strays=False)
        return forked

    def run_aside(self, work: Callable[[], Json], seconds: float) -> Errand:
        """Run in a forked child for at most that long, ignoring stop requests. See `RunUninterrupted`."""
        forked = self._fork(lambda notify: work())
        self._wait_for_child(forked, now() + seconds, ignore_cancel=True)
        if not forked.is_over:
            os.kill(forked.pid, signal.SIGKILL)
        return forked

    def _fork(self, work: Callable[[Tell], Json], on_news: Callable[[Json], None] = lambda news: None) -> Errand:
        return Errand(work, on_news, kept_out=(self._lock, *self._data.mounts.life))

    def _wait_for_child(self, forked: Errand, deadline: float | None = None, *, ignore_cancel: bool = False) -> None:
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
        self._loop.deliveries.report("finalizing", message=message)
