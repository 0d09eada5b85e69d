"""One part of a run's attempt on this node, from its plan to its acknowledged end.

The supervisor holds the part's lock for its life. Everything it knows that matters lies in the part's folder, so
when it is killed the next one on the same folder brings the part to a true end.
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
from runyard.node import ending as ends
from runyard.node.assembly import READY, Assembly
from runyard.node.attempt import AttemptFolder
from runyard.node.background import Background
from runyard.node.containers.care import ContainerCare
from runyard.node.courier import names_that_are_no_text
from runyard.node.data.care import DataCare
from runyard.node.ending import Ending
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

_LOOK_AGAIN_SECONDS, _LAST_MOMENT_SECONDS = 0.02, 1.0
_STEPS = {"environment": "Building the environment.", "data": "Fetching data."}


def supervise(folder: AttemptFolder, lock: int, sdk: Path | None, keeper: ProcessId | None) -> None:
    """Bring the part to its end. `lock` is the descriptor that holds its lock, `sdk` the folder of the SDK if the
    agent has found it, `keeper` the exit keeper above that agent."""
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
        self._background = Background(folder, plan)
        self._data = DataCare(folder, plan, self)
        self._exits = Exits(folder, self._background.loop, keeper)
        self._containers = ContainerCare(folder, self.run_aside)
        self._tree = ProcessTree(
            folder,
            self.wait_until,
            self._background.loop.has_children,
            own=self._own_processes,
            followed=lambda: self._exits.followed,
            containers=self._containers,
        )
        self._assembly = Assembly(folder, plan, self._background, self._tree, self._containers)

    def run(self) -> None:
        was_supervised = self._folder.was_supervised()
        self._sign_in()
        adopt_orphans()
        self._folder.make_room()
        self._background.listen()
        try:
            ending = (self._found_end() if was_supervised else None) or self._try(self._live)
            if ending is not None:
                self._finish(ending)
        except AttemptOver:
            self._give_up()
        self._containers.remove()  # also what a supervisor before this one had asked for in its last moment
        self._assembly.close()
        self._folder.delete()

    def _sign_in(self) -> None:
        own = identify(os.getpid())
        facts: Json = {"pid": os.getpid(), "started": own.started if own else 0}
        try:
            self._folder.write("supervisor.json", facts)
        except OSError:  # the disk is full: a supervisor before this one holds room for the part's end
            self._folder.free_own_reserve()
            self._folder.write("supervisor.json", facts)

    def _found_end(self) -> Ending | None:
        """The end that an earlier supervisor left, or that what it started comes to; None when the script was not
        started, so all can start over."""
        self._background.deliveries.resume_from_service()
        result = self._folder.read("result.json")
        if result is None and (started := self._may_follow()) is not None:
            return self._try(partial(self._follow, started))
        ending = Ending(**result) if result is not None else self._data.known_script_end() or self._lost_end()
        if ending is not None:
            self._background.tell_failing(ending)
        self._tree.end(self._background.capped(self._plan.cancel_grace_seconds))
        self._data.recall()
        if ending is None:
            self._data.clear()
        if ending is None or result is not None:
            return ending
        self._background.begin_end()
        return self._data.finish(ending)

    def _may_follow(self) -> Json | None:
        """What an earlier supervisor left about the processes that it started, where they need nothing that died with
        it; None else."""
        started, processes = self._folder.read(PROCESS), self._plan.here.processes
        if started is None or self._data.known_script_end() is not None:
            return None
        self._exits.find(started, processes)
        if not self._exits.may_have_started(processes) or self._told_before() is not None:
            return None
        if self._plan.is_distributed:
            return started if self._is_decided() else None
        if not self._exits.are_kept(processes):
            return None
        is_over = None not in self._exits.statuses(processes)
        return started if is_over or self._data.are_mounts_alive() else None

    def _is_decided(self) -> bool:
        """Whether the work of a part of a distributed run is done. What still runs cannot go on: its network, ports and
        launchers end with a supervisor. Ranks that are about to end have a moment for it; a launcher has not, since it
        fails by what it lost."""
        processes = self._plan.here.processes
        has_launcher = any(spec.role == "launcher" for spec in processes)
        until = now() + (0.0 if has_launcher else _LAST_MOMENT_SECONDS)
        essential = [spec for spec in processes if spec.is_essential]
        while None in self._exits.statuses(essential) and self._exits.has_keeper() and now() < until:
            self.wait_until(lambda: False, now() + _LOOK_AGAIN_SECONDS, ignore_cancel=True)
        if any(self._exits.statuses(processes)):
            return self._background.stop is None
        left = essential if self._exits.has_keeper() else processes
        return None not in self._exits.statuses(left)

    def _follow(self, started: Json) -> Ending:
        """Wait for what an earlier supervisor started: it goes on, with its logs and files in the same places."""
        self._data.recall()
        self._background.collection.watch()
        self._background.collection.sweep()
        prepared = Prepared.from_json(started["prepared"])
        launch = Launch(self._folder, self._plan, prepared, self._sdk or Path(), roster=started["roster"])
        return self._ended(Running(launch, self._background, self._tree, self._exits).follow(started), prepared)

    def _lost_end(self) -> Ending | None:
        started = self._folder.read(PROCESS)
        has_keeper = started is not None and bool(started.get("keeper"))
        if self._folder.read(READY) is None and (
            started is None or (has_keeper and not self._exits.may_have_started(self._plan.here.processes))
        ):
            return None
        if (told := self._told_before()) is not None:
            return told
        if has_keeper and not self._plan.is_distributed and not self._tree.living():
            spec = self._plan.here.processes[0]
            return ends.unknown(spec.rank, spec.log)
        message = "The node supervisor was killed while the script was running; its processes have been ended."
        lost = ends.failed("Running", message)
        lost.lost = True
        if ranks := ranks_of(self._plan):
            # Nobody knows which of them went first, or whether one did: the part's own first stands for them.
            lost.rank, _, lost.log = ranks[0]
            lost.tail = ends.last_lines_of(self._folder.std / Path(lost.log).name)["tail"]
        return lost

    def _told_before(self) -> Ending | None:
        """The end that was wished for: the supervisor before this one did not see to it, and was ended for that, or was
        killed after a cancel."""
        stop, was_overdue = self._background.stop, (self._folder.root / OVERDUE).exists()
        if stop is None or not (was_overdue or stop.end_as == "canceled"):
            return None
        told = ends.as_told(stop.end_as, "Running")
        if was_overdue:
            told.warnings.append(f"The supervisor of {self._plan.here.name or 'the node'} did not stop; it was ended.")
        return told

    def _try(self, live: Callable[[], Ending | None]) -> Ending | None:
        try:
            return live()
        except OSError as e:  # a full disk, or a limit of the machine: the run must hear why it ended
            self._tree.end(self._background.grace())
            return ends.failed("Starting", f"The node could not go on with the run: {ends.obstacle(e)}")
        except AttemptOver:
            raise
        except Exception as e:  # a mistake of ours must not be told as the supervisor having been killed
            with contextlib.suppress(OSError), self._folder.node_log.open("a", encoding="utf-8") as log:
                traceback.print_exc(file=log)
            self._tree.end(self._background.grace())
            return ends.failed("Starting", f"The node supervisor failed: {type(e).__name__}: {e}.")

    def _live(self) -> Ending | None:
        prepared = self._prepare()
        if isinstance(prepared, Ending):
            return prepared
        if self._plan.kind == "prepare":
            # Last of all: what comes after it is of an attempt that is over.
            self._background.collection.sweep()
            self._background.deliver_all()
            self._background.deliveries.report("prepared", environment_key=prepared.environment_key, lock=prepared.lock)
            self._background.deliver_all()
            return None
        self._data.take(prepared.data)
        return self._ended(self._run_in_held_environment(prepared), prepared)

    def _ended(self, ending: Ending, prepared: Prepared) -> Ending:
        """The end of the part, once its data has arrived, by that of its processes."""
        ending.warnings += prepared.warnings
        self._background.begin_end()
        self._background.tell_failing(ending)
        return self._data.finish(ending)

    def _prepare(self) -> Prepared | Ending:
        self._background.collection.watch()
        if self._background.stop is not None:  # told so before this supervisor began
            return ends.as_told(self._background.stop.end_as, "Preparing")
        at_once = prepared_at_once(self._folder, self._plan)
        if at_once is not None:
            return at_once
        mounting = Mounting()
        if self._plan.data:
            # Not before: what an earlier supervisor has left is seen with everybody's mounts, and ended from there.
            # A container engine sees none but the machine's own.
            has_own = self._plan.environment.image is None and kernel.unshare_mounts()
            mounting = Mounting(has_own, self._data.mounts.open_life())
        step = "code"

        def hear(news: Json) -> None:
            nonlocal step
            step = news.get("step", step)
            self._background.deliveries.report("preparing", message=news.get("message") or _STEPS[step])

        errand = self.run_errand(lambda tell: prepare(self._folder, self._plan, mounting, tell).to_json(), hear)
        if mounting.life >= 0:
            os.close(mounting.life)
        if self._background.stop is not None:
            return ends.as_told(self._background.stop.end_as, "Preparing")
        if errand.done is not None:
            return Prepared.from_json(errand.done)
        died = {"code": "ServiceError", "message": f"The preparation of the run died in step '{step}'."}
        return Ending("failed", "Preparing", error=errand.error or died)

    def _run_in_held_environment(self, prepared: Prepared) -> Ending:
        """Nobody may prune the environment while the script uses it."""
        built = BuiltEnvironment(prepared.environment_key, Path(prepared.python), prepared.lock, image=prepared.image)
        try:
            with Environments(environments_root(self._folder.home), {}).hold(built) as held:
                return self._run_processes(prepared, held)
        except EnvironmentFailed as e:
            return ends.failed("Starting", str(e))

    def _run_processes(self, prepared: Prepared, environment: int | None) -> Ending:
        here = self._plan.here
        self._folder.hold_reserve(max(len(here.processes), len(here.ranks)))
        sdk = self._sdk or ensure_sdk_folder(self._folder.home)
        try:
            launch = self._assembly.launch(prepared, sdk, self.run_errand, self._errand)
        except AttemptOver:
            raise
        except RunyardError as e:
            return ends.failed("Starting", str(e))
        if launch is None:
            return ends.as_told(self._background.stop.end_as if self._background.stop else "canceled", "Starting")
        # What the script needs stays for it when this process is killed.
        held = (*([] if environment is None else [environment]), *self._data.mounts.life)
        return Running(replace(launch, held=held), self._background, self._tree, self._exits).run()

    def _finish(self, ending: Ending) -> None:
        deliveries, courier = self._background.deliveries, self._background.courier
        self._background.begin_end()
        self._background.tell_failing(ending)
        self._data.clear()
        self._folder.free_reserve()
        courier.is_final = True
        try:
            self._folder.write("result.json", vars(ending), durable=True)
        except OSError as e:
            ending.warnings.append(f"The end could not be kept on the node's disk: {e}.")
        deliveries.is_in_haste = True
        self._background.collection.sweep()
        deliveries.ship()
        self._background.collection.hand_over()
        if not self._background.is_all_delivered():
            deliveries.report("finalizing")
        self._background.deliver_all()
        refused = {**courier.refused, **deliveries.journals.refused, **deliveries.logs.refused}
        lost = lost_lines(self._folder.journals)
        warnings = [*ending.warnings, *self._containers.warnings, *deliveries.warnings, *lost]
        if not shows_outputs_of_another(self._folder):
            refused |= dict.fromkeys(names_that_are_no_text(self._folder.work, OUTPUTS), "its name is not UTF-8.")
        warnings += [f"{name} could not be delivered: {reason}" for name, reason in list(refused.items())[:10]]
        deliveries.report("ended", **{**vars(ending), "warnings": warnings, "undelivered": len(refused)})
        self._background.deliver_all()

    def _give_up(self) -> None:
        """The run has ended or goes on elsewhere: nothing of this part may go on, and nobody wants what it wrote."""
        self._background.drop()
        self._tree.end(0)
        self._data.clear()

    def run_errand(self, work: Callable[[Tell], Json], on_news: Callable[[Json], None]) -> Errand:
        """Work in a child until it is over, or the part is to stop. Without success nothing that it started is left."""
        errand = self._errand(work, on_news)
        self._see_through(errand)
        stop = self._background.stop
        if errand.done is None or stop is not None:
            self._tree.end(0.0 if stop is None else stop.grace_seconds, strays=False)
        return errand

    def run_aside(self, work: Callable[[], Json], seconds: float) -> Errand:
        """As `ContainerCare` asks for."""
        errand = self._errand(lambda tell: work())
        self._see_through(errand, now() + seconds, ignore_cancel=True)
        if not errand.is_over:
            os.kill(errand.pid, signal.SIGKILL)
        return errand

    def _errand(self, work: Callable[[Tell], Json], on_news: Callable[[Json], None] = lambda news: None) -> Errand:
        return Errand(work, on_news, kept_out=(self._lock, *self._data.mounts.life))

    def _see_through(self, errand: Errand, deadline: float | None = None, *, ignore_cancel: bool = False) -> None:
        self._background.loop.on_readable(errand, errand.read)
        self.wait_until(lambda: errand.is_over, deadline, ignore_cancel=ignore_cancel)
        self._background.loop.forget(errand)
        errand.close()

    def wait_until(
        self, is_done: Callable[[], bool], deadline: float | None = None, *, ignore_cancel: bool = False
    ) -> None:
        self._background.wait_until(is_done, deadline, ignore_cancel=ignore_cancel)

    def _own_processes(self) -> set[int]:
        return {*self._data.mounts.pids, *self._assembly.pids}

    def is_canceled(self) -> bool:
        return self._background.stop is not None

    def exit_status(self, pid: int) -> int | None:
        return self._background.loop.exit_status(pid)

    def report_uploading(self, message: str) -> None:
        self._background.deliveries.report("finalizing", message=message)
