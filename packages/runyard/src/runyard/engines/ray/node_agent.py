"""The actor on each Ray node. It starts our agent and hands messages to it; it forks nothing itself."""

import json
import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runyard.engines.node_parts import NodeParts
from runyard.engines.ray.node_home import claim_home, nodes_folder
from runyard.engines.warm_agent import WarmAgent
from runyard.errors import EngineError, Json, RunyardError, to_wire
from runyard.node.attempt import attempt_folders
from runyard.node.fence import open_guard
from runyard.node.processes import ProcessId, identify
from runyard.version import VERSION

_OF_RAY = ("RAY_", "PYTHON")
_LOOK_AGAIN_SECONDS = 1.0


class NodeAgent:
    """Its methods are called by the bridge. None raises: an error comes back as `{"error": ...}`."""

    def __init__(self, service: str, address: str) -> None:
        raylet = _raylet()
        self._home = claim_home(nodes_folder(), service, address, raylet)
        self._agent = WarmAgent(self._home, environ=_variables_of(raylet), guard=raylet)
        self._parts = NodeParts(self._home, self._agent)
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
        require_version(request["version"])
        return {"version": VERSION, "home": str(self._home), "pid": os.getpid()}

    def _service(self, request: Json) -> Json:
        """Where the service is reached from here. Without any token: a node has only those of its attempts."""
        self._write("service.json", {"url": request["url"], "ca": request["ca"]})
        return {}

    def _start(self, request: Json) -> Json:
        require_version(request["version"])
        self._service(request["service"])
        self._parts.lay_out(request["part"], request["plan"])
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
        """The agent goes, unless it has something to look after: `is_free` says which."""
        if attempt_folders(self._home):
            return {"is_free": False}
        self._is_leaving = True
        self._agent.ask({"op": "exit"})
        return {"is_free": True}

    def _keep_agent(self) -> None:
        """An agent that is killed while parts are here is started again at once: nobody else ends what they leave."""
        while not self._is_leaving:
            try:
                process = identify(int(self._agent.ask({"op": "status"})["pid"]))
            except (RunyardError, OSError):
                process = None
            if process is not None:
                _wait_for_end(process)
            else:
                time.sleep(_LOOK_AGAIN_SECONDS)
            while not self._is_leaving and not attempt_folders(self._home):
                time.sleep(_LOOK_AGAIN_SECONDS)

    def _write(self, name: str, body: Json) -> None:
        text = json.dumps(body)
        place = self._home / name
        if place.exists() and place.read_text(encoding="utf-8") == text:
            return
        beside = self._home / f".{name}.{os.getpid()}.{threading.get_ident()}"
        beside.touch(mode=0o600)
        beside.write_text(text, encoding="utf-8")
        beside.rename(place)


class GpuHolder:
    """Lives in a bundle of a gang for as long as the gang does, and knows which GPUs Ray gave to it."""

    def ids(self) -> list[str]:
        import ray

        return [str(number) for number in ray.get_gpu_ids()]


def require_version(wanted: str) -> None:
    """Plans of another version may say what this one does not know."""
    if wanted != VERSION:
        raise EngineError(
            f"This Ray node has runyard {VERSION}, the service {wanted}.",
            hint=f"Install the same on every node: pip install 'runyard[ray]=={wanted}'",
        )


def _raylet() -> ProcessId:
    given = os.environ.get("RAY_RAYLET_PID", "")
    found = identify(int(given) if given.isdigit() else os.getppid())
    if found is None:
        raise EngineError("The raylet of this node is gone.")
    return found


def _variables_of(raylet: ProcessId) -> dict[str, str]:
    """As the operator started the node: Ray changes those of its workers (CUDA_VISIBLE_DEVICES, OMP_NUM_THREADS)."""
    text = Path(f"/proc/{raylet.pid}/environ").read_bytes().decode("utf-8", "surrogateescape")
    pairs: list[Any] = [line.partition("=") for line in text.split("\0") if "=" in line]
    return {name: value for name, _, value in pairs if not name.startswith(_OF_RAY)}


def _wait_for_end(process: ProcessId) -> None:
    descriptor = open_guard(process)
    if descriptor is None:
        return
    try:
        select.select([descriptor], [], [])
    finally:
        os.close(descriptor)
