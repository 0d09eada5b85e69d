import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runyard.core.disk import disk_errors_explained
from runyard.core.durable_files import try_exclusive_lock
from runyard.core.errors import EngineError, EngineSilent, InvalidArgument, Json, NotFound, from_wire
from runyard.core.record_json import from_json
from runyard.core.records.web_services import ObservedService, ServiceSpec
from runyard.node.home_socket import ask_socket
from runyard.node.processes.detached import DetachedProcess, tries_within
from runyard.process_logs.setup import LEVEL_VARIABLE
from runyard.serving.gateway.http.listening_socket import tls_context
from runyard.serving.gateway.identity import ANOTHER_GATEWAY, GATEWAY_LOCK, GATEWAY_SOCKET, gateway_version
from runyard.serving.service_folder import ServiceFolder, service_folders
from runyard.serving.service_log import read_log
from runyard.serving.workers.process_tree import kill_service_trees

_START_SECONDS = 20.0
_RETRY_SECONDS = 0.02
_ANSWER_SECONDS = 10.0
_FIGURES_SECONDS = 2.0
_TRIES = 3
_NOT_FOR_THE_GATEWAY = ("PYTHON", "RUNYARD_")


class LocalServiceHost:
    """`ServiceHost` on this machine: starts the gateway of a home folder and talks to it over its socket.

    The gateway is started when it is needed and outlives this object. A gateway of another version than the installed
    code is asked to exit first; its web services pause for a moment.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._starting = threading.Lock()
        self._process = DetachedProcess("gateway", home / "gateway.log", another=ANOTHER_GATEWAY)
        self._checked = False

    def check(self, spec: ServiceSpec) -> None:
        tls_context(spec)

    def apply(self, spec: ServiceSpec) -> None:
        folder = ServiceFolder(self._home, spec.id)
        with disk_errors_explained(folder.root):
            folder.write_spec(spec)
        self._ask({"op": "apply", "service": spec.id})

    def remove(self, service_id: str) -> None:
        folder = ServiceFolder(self._home, service_id)
        folder.mark_removed()
        deadline = time.monotonic() + _START_SECONDS
        while folder.root.exists():
            try:
                self._ask_once({"op": "remove", "service": service_id}, _START_SECONDS)
            except OSError:
                self._remove_without_gateway(folder)
            if time.monotonic() > deadline:
                raise self._silence(f"did not remove web service {service_id}")

    def generation(self, service_id: str) -> int:
        try:
            return ServiceFolder(self._home, service_id).spec().generation
        except (NotFound, InvalidArgument):
            return 0

    def observe(self, service_id: str) -> ObservedService | None:
        return ServiceFolder(self._home, service_id).state()

    def wait(self, service_id: str, version: int, seconds: float) -> ObservedService | None:
        folder = ServiceFolder(self._home, service_id)
        if not folder.exists():
            return folder.state()
        request = {"op": "wait", "service": service_id, "version": version, "seconds": seconds}
        try:
            observed = self._ask(request, seconds + _ANSWER_SECONDS)["observed"]
        except EngineSilent:
            observed = None  # the process is stopped (SIGSTOP); the caller asks again
        return folder.state() if observed is None else from_json(ObservedService, observed, "observed")

    def read_log(self, service_id: str, offset: int, limit: int) -> tuple[bytes, int]:
        return read_log(ServiceFolder(self._home, service_id).log, offset, limit)

    def metrics(self, service_id: str) -> Mapping[str, Any]:
        try:
            return self._ask_once({"op": "metrics", "service": service_id})
        except OSError:
            return {}

    def figures(self) -> Sequence[Mapping[str, Any]] | None:
        """Counts of every web service for a metrics scrape; None while the gateway does not answer."""
        if not service_folders(self._home):
            return []
        try:
            counts: list[Json] = self._ask_once({"op": "figures"}, _FIGURES_SECONDS)["services"]
        except OSError:
            return None
        return counts

    def revive(self) -> None:
        if service_folders(self._home):
            self._ask({"op": "status"})

    def service_ids(self) -> list[str]:
        """Ids of all web services that have a folder."""
        return [folder.id for folder in service_folders(self._home)]

    def _ask(self, request: Json, timeout_seconds: float = _ANSWER_SECONDS) -> Json:
        """Send a request, starting the gateway when there is none. Raises RunyardError."""
        for _ in range(_TRIES):
            try:
                if self._checked:
                    return self._ask_once(request, timeout_seconds)
            except OSError:
                self._checked = False  # it may have exited just now
            with self._starting:
                self._ensure()
        raise self._silence(f"did not answer {request['op']!r}")

    def _ask_once(self, request: Json, timeout_seconds: float = _ANSWER_SECONDS) -> Json:
        answer = ask_socket(self._home, GATEWAY_SOCKET, request, timeout_seconds=timeout_seconds)
        if "error" in answer:
            raise from_wire(answer["error"])
        return answer

    def _ensure(self) -> None:
        """Start a gateway, or replace one of another version. Raises EngineError when it does not come up in time."""
        asked_to_exit: set[int] = set()
        for _ in tries_within(_START_SECONDS):
            try:
                status = self._ask_once({"op": "status"})
                # A successor runs the installed code, which may be newer than the code of this process.
                if status["version"] == gateway_version() or (asked_to_exit and status["pid"] not in asked_to_exit):
                    self._checked = True
                    return
                asked_to_exit.add(status["pid"])
                self._ask_once({"op": "exit"})
            except OSError:
                self._process.start(self._command, _variables())
                continue
            time.sleep(_RETRY_SECONDS)
        raise self._silence(f"did not start within {_START_SECONDS:.0f} s")

    def _silence(self, what: str) -> EngineError:
        """EngineSilent when the gateway runs (its lock is held), else EngineError."""
        with try_exclusive_lock(self._home / GATEWAY_LOCK) as is_gone:
            error = EngineError if is_gone else EngineSilent
        return error(f"The gateway of {self._home} {what}.", hint=f"See {self._home / 'gateway.log'}.")

    def _command(self, ready_fd: int) -> list[str]:
        return [sys.executable, "-m", "runyard.serving.gateway", str(self._home), str(ready_fd)]

    def _remove_without_gateway(self, folder: ServiceFolder) -> None:
        with try_exclusive_lock(self._home / GATEWAY_LOCK) as is_alone:
            if is_alone:
                kill_service_trees(self._home, folder.id)
                folder.delete()
        if not is_alone:
            time.sleep(_RETRY_SECONDS)  # a gateway is starting or exiting


def _variables() -> dict[str, str]:
    """Environment without variables of the run or interpreter that happens to start the gateway."""
    return {
        name: value
        for name, value in os.environ.items()
        if name == LEVEL_VARIABLE or not name.startswith(_NOT_FOR_THE_GATEWAY)
    }
