import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runyard.blobs.disk import explained
from runyard.core.record_json import from_json
from runyard.environments.durable import locked_if_free
from runyard.errors import EngineError, EngineSilent, InvalidArgument, Json, NotFound, from_wire
from runyard.model.web_services import ObservedService, ServiceSpec
from runyard.node.detached import DetachedProcess, tries_within
from runyard.node.line_socket import ask_socket
from runyard.process_logs.setup import LEVEL_VARIABLE
from runyard.serving.folder import ServiceFolder, service_folders
from runyard.serving.front.listening import tls_context
from runyard.serving.log_file import read_log
from runyard.serving.names import ANOTHER_GATEWAY, GATEWAY_LOCK, GATEWAY_SOCKET
from runyard.serving.version import gateway_version
from runyard.serving.workers.tree import kill_service_trees

_START_SECONDS = 20.0
_LOOK_AGAIN_SECONDS = 0.02
_ANSWER_SECONDS = 10.0
_FIGURES_SECONDS = 2.0
_TRIES = 3
_NOT_FOR_THE_GATEWAY = ("PYTHON", "RUNYARD_")


class LocalServiceHost:
    """Web services on this machine, by the gateway of a home folder; a `ServiceHost`.

    The gateway is started when it is needed and not there, and outlives this object. One of another version than the
    code that is installed is asked to leave first: its web services pause for a moment.
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
        with explained(folder.root):
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
        asked = {"op": "wait", "service": service_id, "version": version, "seconds": seconds}
        try:
            told = self._ask(asked, seconds + _ANSWER_SECONDS)["observed"]
        except EngineSilent:
            told = None  # somebody has stopped it; whoever waits asks again
        return folder.state() if told is None else from_json(ObservedService, told, "observed")

    def read_log(self, service_id: str, offset: int, limit: int) -> tuple[bytes, int]:
        return read_log(ServiceFolder(self._home, service_id).log, offset, limit)

    def metrics(self, service_id: str) -> Mapping[str, Any]:
        try:
            return self._ask_once({"op": "metrics", "service": service_id})
        except OSError:
            return {}

    def figures(self) -> Sequence[Mapping[str, Any]] | None:
        """Counts of every web service for a scrape: empty where there is none, None while the gateway is away."""
        if not service_folders(self._home):
            return []
        try:
            told: list[Json] = self._ask_once({"op": "figures"}, _FIGURES_SECONDS)["services"]
        except OSError:
            return None
        return told

    def revive(self) -> None:
        if service_folders(self._home):
            self._ask({"op": "status"})

    def service_ids(self) -> list[str]:
        """Of every web service that was applied and whose folder has not gone."""
        return [folder.id for folder in service_folders(self._home)]

    def _ask(self, request: Json, timeout_seconds: float = _ANSWER_SECONDS) -> Json:
        """Its answer. The gateway is started where there is none. Raises RunyardError."""
        for _ in range(_TRIES):
            try:
                if self._checked:
                    return self._ask_once(request, timeout_seconds)
            except OSError:
                self._checked = False  # it has gone, perhaps just now
            with self._starting:
                self._ensure()
        raise self._silence(f"did not answer {request['op']!r}")

    def _ask_once(self, request: Json, timeout_seconds: float = _ANSWER_SECONDS) -> Json:
        answer = ask_socket(self._home, GATEWAY_SOCKET, request, timeout_seconds=timeout_seconds)
        if "error" in answer:
            raise from_wire(answer["error"])
        return answer

    def _ensure(self) -> None:
        sent_away: set[int] = set()
        for _ in tries_within(_START_SECONDS):
            try:
                status = self._ask_once({"op": "status"})
                # A successor runs what is installed now, however old the code of this process is.
                if status["version"] == gateway_version() or (sent_away and status["pid"] not in sent_away):
                    self._checked = True
                    return
                sent_away.add(status["pid"])
                self._ask_once({"op": "exit"})
            except OSError:
                self._process.start(self._command, _variables())
                continue
            time.sleep(_LOOK_AGAIN_SECONDS)
        raise self._silence(f"did not start within {_START_SECONDS:.0f} s")

    def _silence(self, what: str) -> EngineError:
        """EngineSilent while it is there, by its lock."""
        with locked_if_free(self._home / GATEWAY_LOCK) as is_gone:
            error = EngineError if is_gone else EngineSilent
        return error(f"The gateway of {self._home} {what}.", hint=f"See {self._home / 'gateway.log'}.")

    def _command(self, told: int) -> list[str]:
        return [sys.executable, "-m", "runyard.serving.gateway", str(self._home), str(told)]

    def _remove_without_gateway(self, folder: ServiceFolder) -> None:
        with locked_if_free(self._home / GATEWAY_LOCK) as is_alone:
            if is_alone:
                kill_service_trees(self._home, folder.id)
                folder.delete()
        if not is_alone:
            time.sleep(_LOOK_AGAIN_SECONDS)  # it is starting, or leaving


def _variables() -> dict[str, str]:
    """Nothing of the run or the interpreter that happens to start it."""
    return {
        name: value
        for name, value in os.environ.items()
        if name == LEVEL_VARIABLE or not name.startswith(_NOT_FOR_THE_GATEWAY)
    }
