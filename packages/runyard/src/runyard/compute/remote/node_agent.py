"""Handles the service's requests on a remote node, for any kind of cluster. It starts the agent, and forks nothing
itself.
"""

import fcntl
import json
import os
import re
import select
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from runyard.core.disk import write_all
from runyard.core.durable_files import replace_file, replacement
from runyard.core.errors import EngineError, Json, RunyardError, to_wire
from runyard.core.version import VERSION
from runyard.node.agent_client import AgentClient, NodeTasks
from runyard.node.guard import open_guard
from runyard.node.processes.procfs import ProcessId, identify
from runyard.node.task_folder import list_task_folders

_POLL_SECONDS = 1.0


class NodeAgent:
    """Lives on a node as long as runs may come.

    `ask` takes `{"op": ...}`: "hello" with `version`; "service" with `url` and `ca`; "start" with `version`,
    `service`, `part` and `plan`; "phases" with `parts`; "recover" with `part`; "cancel" with `part`, `grace` and
    `end_as`; "leave".
    All are safe to repeat. It never raises: an error is returned as `{"error": ...}`.
    """

    def __init__(
        self,
        home: Path,
        *,
        environ: Mapping[str, str] | None = None,
        guard: ProcessId | None = None,
        requirement: str = "runyard",
    ) -> None:
        """`home`: see `claim_home`. `environ`: variables of the agent and its tasks, by default our own. With a `guard`
        all tasks are killed when that process ends. `requirement`: what to install on a node of another version."""
        self._home, self._requirement = home, requirement
        self._agent = AgentClient(self._home, environ=environ, guard=guard)
        self._parts = NodeTasks(self._home, self._agent)
        self._known: dict[str, Callable[[Json], Json]] = {
            "hello": self._hello,
            "service": self._service,
            "start": self._start,
            "phases": self._phases,
            "recover": self._recover,
            "cancel": self._cancel,
            "leave": self._leave,
        }
        self._is_leaving = False
        threading.Thread(target=self._keep_agent, name="keeping", daemon=True).start()

    def ask(self, request: Json) -> Json:
        try:
            return self._known[request["op"]](request)
        except RunyardError as e:
            return {"error": to_wire(e)}
        except OSError as e:
            return {"error": to_wire(EngineError(f"The node cannot do what it was asked: {e}."))}

    def _hello(self, request: Json) -> Json:
        require_version(request["version"], self._requirement)
        return {"version": VERSION, "home": str(self._home), "pid": os.getpid()}

    def _service(self, request: Json) -> Json:
        """Keep the service's address for this node. It has no token: a node has only those of its attempts."""
        self._write("service.json", {"url": request["url"], "ca": request["ca"]})
        return {}

    def _start(self, request: Json) -> Json:
        require_version(request["version"], self._requirement)
        self._service(request["service"])
        self._parts.write_plan(request["part"], request["plan"])
        self._parts.start(request["part"])
        return {}

    def _phases(self, request: Json) -> Json:
        return {"phases": {part: self._parts.phase(part).value for part in request["parts"]}}

    def _recover(self, request: Json) -> Json:
        self._parts.recover(request["part"])
        return {}

    def _cancel(self, request: Json) -> Json:
        self._parts.cancel(request["part"], float(request["grace"]), request["end_as"])
        return {}

    def _leave(self, _: Json) -> Json:
        """End the agent, unless it has tasks. `is_free` tells whether it ends."""
        if list_task_folders(self._home):
            return {"is_free": False}
        self._is_leaving = True
        self._agent.ask({"op": "exit"})
        return {"is_free": True}

    def _keep_agent(self) -> None:
        """Restart an agent that is killed while it has tasks: nothing else would clean up after them."""
        while not self._is_leaving:
            try:
                process = identify(int(self._agent.ask({"op": "status"})["pid"]))
            except (RunyardError, OSError):
                process = None
            if process is not None:
                _wait_for_end(process)
            else:
                time.sleep(_POLL_SECONDS)
            while not self._is_leaving and not list_task_folders(self._home):
                time.sleep(_POLL_SECONDS)

    def _write(self, name: str, body: Json) -> None:
        text = json.dumps(body)
        place = self._home / name
        if place.exists() and place.read_text(encoding="utf-8") == text:
            return
        replace_file(place, text.encode())


def require_version(wanted: str, requirement: str = "runyard") -> None:
    """Raise EngineError unless the service has our version: a plan of another may have unknown fields."""
    if wanted != VERSION:
        raise EngineError(
            f"This node has runyard {VERSION}, the service {wanted}.",
            hint=f"Install the same on every node: pip install '{requirement}=={wanted}'",
        )


def _wait_for_end(process: ProcessId) -> None:
    descriptor = open_guard(process)
    if descriptor is None:
        return
    try:
        select.select([descriptor], [], [])
    finally:
        os.close(descriptor)


_ODD = re.compile(r"[^A-Za-z0-9.\-]")
_GUARD = "guard"


def nodes_folder() -> Path:
    """Folder of the node homes on this machine: RUNYARD_NODE_HOME, else ~/.runyard/nodes."""
    return Path(os.environ.get("RUNYARD_NODE_HOME") or "~/.runyard/nodes").expanduser().absolute()


def claim_home(root: Path, service: str, address: str, guard: ProcessId) -> Path:
    """Claim a home folder for the node whose life is that of the process `guard`.

    Every call returns the same. The next node with the same address gets the home of an ended node, with its caches.
    Two living nodes of one machine never share a home.
    """
    folder = root / _ODD.sub("_", service)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _find(folder, _ODD.sub("_", address), guard)
    finally:
        os.close(lock)


def _find(folder: Path, name: str, guard: ProcessId) -> Path:
    number, free = 1, None
    while (home := folder / f"{name}-{number}").is_dir():
        holder = _holder(home)
        if holder == guard:
            return home
        if free is None and (holder is None or not holder.is_alive()):
            free = home
        number += 1
    chosen = free or home
    chosen.mkdir(mode=0o700, exist_ok=True)
    with replacement(chosen / _GUARD) as fd:
        write_all(fd, guard.format().encode("ascii"))
    return chosen


def _holder(home: Path) -> ProcessId | None:
    try:
        return ProcessId.parse((home / _GUARD).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
