"""One attempt of a run on this node, from its plan to its acknowledged end.

The supervisor holds the attempt's lock for its life. Everything it knows that matters lies in the attempt's
folder, so when it is killed the next one on the same folder brings the attempt to a true end.
"""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from runyard.environments.uv import UvEnvironments
from runyard.errors import EnvironmentFailed, Json
from runyard.model.plan import LaunchPlan, ProcessSpec
from runyard.mounting import kernel
from runyard.node import ending as ends
from runyard.node.attempt import RESERVE_BYTES, AttemptFolder
from runyard.node.collection import OUTPUTS, Collection
from runyard.node.courier import Courier, names_that_are_no_text
from runyard.node.data.care import DataCare
from runyard.node.deliveries import Deliveries
from runyard.node.ending import Ending
from runyard.node.errand import Errand, Tell
from runyard.node.event_loop import EventLoop, now
from runyard.node.preparation import Mounting, Prepared, prepare, prepared_at_once
from runyard.node.processes import adopt_orphans, identify, out_of_memory_kills
from runyard.node.script import log_file, start_script
from runyard.node.sdk_folder import ensure_sdk_folder
from runyard.node.service_client import ServiceClient
from runyard.node.tree import ProcessTree
from runyard.node.watching import Watcher
from runyard.planning.plan_json import plan_from_json
from runyard.ports.environments import BuiltEnvironment

_ORPHAN_CHECK_SECONDS = 30.0
_STEPS = {"environment": "Building the environment.", "data": "Fetching data."}


def supervise(home: Path, part: str, lock: int, sdk: Path | None) -> None:
    """Bring the part to its end. `lock` is the descriptor that holds its lock, `sdk` the folder of the
    SDK if the agent has found it."""
    folder = AttemptFolder(home, part)
    body = folder.read("plan.json")
    if body is not None:
        Supervisor(folder, plan_from_json(body), lock, sdk).run()


class Supervisor:
    def __init__(self, folder: AttemptFolder, plan: LaunchPlan, lock: int, sdk: Path | None) -> None:
        self._folder, self._plan, self._lock, self._sdk = folder, plan, lock, sdk
        self._loop, self._watcher = EventLoop(), Watcher()
        client = ServiceClient(folder.home, plan.token)
        self._deliveries = Deliveries(plan.run_id, plan.attempt_id, client, self._want_cancel)
        self._courier = Courier(ServiceClient(folder.home, plan.token, timeout_seconds=3600), self._loop.wake)
        self._collection = Collection(folder, plan.run_id, self._watcher, self._deliveries, self._courier)
        self._data = DataCare(folder, plan, self)
        self._tree = ProcessTree(folder, self.wait_until, self._loop.has_children, lambda: self._data.mounts.pids)
        self._cancel_grace: float | None = None

    def run(self) -> None:
        was_supervised = self._folder.read("supervisor.json") is not None
        own = identify(os.getpid())
        self._folder.write("supervisor.json", {"pid": os.getpid(), "started": own.started if own else 0})
        adopt_orphans()
        self._folder.make_room()
        self._listen()
        ending = (self._found_end() if was_supervised else None) or self._try_to_live()
        if ending is not None:
            self._finish(ending)
        self._folder.delete()

    def _listen(self) -> None:
        self._loop.on_readable(self._watcher, self._watcher.dispatch)
        self._watcher.watch_arrivals(self._folder.root, lambda path, _: self._look_for_cancel(path))
        self._watcher.watch_arrivals(self._folder.home, lambda path, _: self._look_for_service(path))
        self._look_for_cancel(self._folder.root / "cancel.json")

    def _found_end(self) -> Ending | None:
        """The end that an earlier supervisor left; None when the script was not started, so all can start over."""
        self._deliveries.resume_from_service()
        self._tree.end(self._plan.cancel_grace_seconds)
        script_end = self._data.recall()
        result = self._folder.read("result.json")
        if result is not None:
            return Ending(**result)
        if self._folder.read("process.json") is None:
            self._data.clear()
            return None
        message = "The node supervisor was killed while the script was running; its processes have been ended."
        return self._data.finish(script_end or ends.failed("Running", message))

    def _try_to_live(self) -> Ending | None:
        try:
            return self._live()
        except OSError as e:  # a full disk, or a limit of the machine: the run must hear why it ended
            self._tree.end(self._plan.cancel_grace_seconds)
            return ends.failed("Starting", f"The node could not go on with the run: {e}.")

    def _live(self) -> Ending | None:
        prepared = self._prepare()
        if isinstance(prepared, Ending):
            return prepared
        if self._plan.kind == "prepare":
            self._deliveries.report("prepared", environment_key=prepared.environment_key, lock=prepared.lock)
            self._deliver_all()
            return None
        self._data.take(prepared.data)
        return self._data.finish(self._run_in_held_environment(prepared))

    def _prepare(self) -> Prepared | Ending:
        self._collection.watch()
        at_once = prepared_at_once(self._folder, self._plan)
        if at_once is not None:
            return at_once
        mounting = Mounting()
        if self._plan.data:
            # Not before: what an earlier supervisor has left is seen with everybody's mounts, and ended from there.
            mounting = Mounting(kernel.unshare_mounts(), self._data.mounts.open_life())
        step = "code"

        def hear(news: Json) -> None:
            nonlocal step
            step = news.get("step", step)
            self._deliveries.report("preparing", message=news.get("message") or _STEPS[step])

        errand = self.run_errand(lambda tell: prepare(self._folder, self._plan, mounting, tell).to_json(), hear)
        if mounting.life >= 0:
            os.close(mounting.life)
        if self._cancel_grace is not None:
            return ends.canceled("Preparing")
        if errand.done is not None:
            return Prepared.from_json(errand.done)
        died = {"code": "ServiceError", "message": f"The preparation of the run died in step '{step}'."}
        return Ending("failed", "Preparing", error=errand.error or died)

    def run_errand(self, work: Callable[[Tell], Json], on_news: Callable[[Json], None]) -> Errand:
        """Work in a child until it is over, or a cancel came. Without success nothing that it started is left."""
        errand = Errand(work, on_news, kept_out=(self._lock, *self._data.mounts.life))
        self._loop.on_readable(errand, errand.read)
        self.wait_until(lambda: errand.is_over)
        self._loop.forget(errand)
        errand.close()
        if errand.done is None or self.is_canceled():
            self._tree.end(self._cancel_grace or 0.0, strays=False)
        return errand

    def is_canceled(self) -> bool:
        return self._cancel_grace is not None

    def exit_status(self, pid: int) -> int | None:
        return self._loop.exit_status(pid)

    def report_uploading(self, message: str) -> None:
        self._deliveries.report("finalizing", message=message)

    def _run_in_held_environment(self, prepared: Prepared) -> Ending:
        """Nobody may prune the environment while the script uses it."""
        built = BuiltEnvironment(prepared.environment_key, Path(prepared.python), prepared.lock)
        try:
            with UvEnvironments(self._folder.home / "environments", {}).hold(built):
                return self._run_script(prepared)
        except EnvironmentFailed as e:
            return ends.failed("Starting", str(e))

    def _run_script(self, prepared: Prepared) -> Ending:
        specs = self._plan.here.processes
        kills_before = out_of_memory_kills()
        self._folder.hold_reserve()
        self._folder.write("process.json", {"at": time.time()})
        sdk = self._sdk or ensure_sdk_folder(self._folder.home)
        try:
            pids = {start_script(self._folder, self._plan, spec, prepared, sdk): spec for spec in specs}
        except OSError as e:
            self._tree.end(0)
            return ends.failed("Starting", f"The script could not be started: {e}.", "UserError")
        started_at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self._deliveries.report("running", pid=next(iter(pids)), started_at=started_at, lock=prepared.lock)
        limit = self._plan.max_seconds
        self.wait_until(lambda: self._is_decided(pids), None if limit is None else now() + limit)
        if self._is_decided(pids):  # also when a cancel came in the same moment: it changed nothing
            ending = self._ended(pids, out_of_memory_kills() > kills_before)
            self._tree.end(self._plan.cancel_grace_seconds, strays=False)
            return ending
        grace = self._plan.cancel_grace_seconds if self._cancel_grace is None else self._cancel_grace
        self._tree.end(grace)
        if self._cancel_grace is not None:
            return ends.canceled("Running")
        return ends.canceled("Running", f"The run took longer than max_run_duration_seconds ({limit}) and was ended.")

    def _is_decided(self, pids: dict[int, ProcessSpec]) -> bool:
        """All processes have ended, or one has failed."""
        known = [self._loop.exit_status(pid) for pid in pids]
        return None not in known or any(known)

    def _ended(self, pids: dict[int, ProcessSpec], memory_ran_out: bool) -> Ending:
        statuses = {pid: self._loop.exit_status(pid) for pid in pids}
        pid = next((pid for pid, status in statuses.items() if status), next(iter(pids)))
        return ends.ended_by_itself(
            statuses[pid] or 0,
            log_file(self._folder, pids[pid]),
            rank=pids[pid].rank,
            memory_ran_out=memory_ran_out,
            disk_is_full=self._folder.free_bytes() < RESERVE_BYTES,
        )

    def _finish(self, ending: Ending) -> None:
        self._data.clear()
        self._folder.free_reserve()
        self._courier.is_final = True
        try:
            self._folder.write("result.json", vars(ending), durable=True)
        except OSError as e:
            ending.warnings.append(f"The end could not be kept on the node's disk: {e}.")
        self._deliveries.is_in_haste = True
        self._collection.sweep()
        self._deliveries.ship()
        self._collection.hand_over()
        if not self._is_all_delivered():
            self._deliveries.report("finalizing")
        self._deliver_all()
        refused = {**self._courier.refused, **self._deliveries.journals.refused}
        warnings = [*ending.warnings, *self._deliveries.warnings]
        refused |= dict.fromkeys(names_that_are_no_text(self._folder.work, OUTPUTS), "its name is not UTF-8.")
        warnings += [f"{name} could not be delivered: {reason}" for name, reason in list(refused.items())[:10]]
        self._deliveries.report("ended", **{**vars(ending), "warnings": warnings, "undelivered": len(refused)})
        self._deliver_all()

    def _deliver_all(self) -> None:
        """Until the service has everything; for as long as that takes, unless the home folder is gone."""
        self.wait_until(self._is_all_delivered, ignore_cancel=True)

    def _is_all_delivered(self) -> bool:
        return not self._deliveries.pending and self._courier.is_idle

    def wait_until(
        self, is_done: Callable[[], bool], deadline: float | None = None, *, ignore_cancel: bool = False
    ) -> None:
        """Go on with all that is going on until that, the deadline, or a cancel."""
        while not is_done():
            if self._cancel_grace is not None and not ignore_cancel:
                return
            if deadline is not None and now() >= deadline:
                return
            if self._deliveries.seconds_to_next() == 0:
                self._deliveries.ship()
            self._collection.hand_over()
            if is_done():
                return
            self._loop.wait(self._seconds_to_next(deadline))

    def _seconds_to_next(self, deadline: float | None) -> float:
        waits = [_ORPHAN_CHECK_SECONDS, self._deliveries.seconds_to_next(), self._collection.seconds_to_next()]
        if deadline is not None:
            waits.append(max(0.0, deadline - now()))
        if not self._folder.exists():
            os._exit(0)  # Somebody removed the home folder: there is nothing left to look after.
        return min(wait for wait in waits if wait is not None)

    def _want_cancel(self) -> None:
        if self._cancel_grace is None:
            self._cancel_grace = self._plan.cancel_grace_seconds

    def _look_for_cancel(self, path: Path) -> None:
        if path.name == "cancel.json" and (wish := self._folder.read("cancel.json")) is not None:
            self._cancel_grace = float(wish["grace"])

    def _look_for_service(self, path: Path) -> None:
        if path.name == "service.json":
            self._deliveries.retry_now()
            self._courier.retry_now()
