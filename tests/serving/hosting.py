"""Web services of a home, driven through its host, with real workers in this interpreter."""

import http.client
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from runyard.core.records.files import FileEntry
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.web_services import ObservedService, Scorer, ServiceSpec, ServiceType
from runyard.serving.gateway.service_host import LocalServiceHost
from runyard.storage.blobs.store import FileBlobStore

ECHO = "def init():\n    print('here I am')\n\ndef run(body):\n    return body\n"
T = TypeVar("T")


class Hosting:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.host = LocalServiceHost(home)
        self._blobs = FileBlobStore(home / "blobs")
        self._numbers = itertools.count(1)

    def file(self, path: str, text: str) -> FileEntry:
        return self.binary(path, text.encode("utf-8"))

    def binary(self, path: str, data: bytes) -> FileEntry:
        source = self.home / "source"
        source.write_bytes(data)
        ((sha256, size),) = self._blobs.put_files([source])
        return FileEntry(path, sha256, size)

    def spec(self, script: str = ECHO, **fields: Any) -> ServiceSpec:
        """A web service of its own that runs this script."""
        name = f"service-{next(self._numbers)}"
        made = ServiceSpec(
            id=f"id-{name}",
            workspace="space",
            name=name,
            type=ServiceType.LOCAL,
            revision=1,
            generation=1,
            scorer=Scorer.SCRIPT,
            models=(),
            environment=EnvironmentSpec(python=sys.executable, user_managed=True),
            code=(self.file("score.py", script),),
            entry_script="score.py",
            build_variables={"PATH": os.environ["PATH"]},
        )
        return replace(made, **fields)

    def deploy(self, spec: ServiceSpec, seconds: float = 30.0) -> ObservedService:
        """Apply it and wait for the end of its deployment, good or bad."""
        self.host.apply(spec)
        return self.until(spec, lambda seen: spec.revision in (seen.revision, seen.failed_revision), seconds)

    def until(
        self, spec: ServiceSpec, is_so: Callable[[ObservedService], bool], seconds: float = 30.0
    ) -> ObservedService:
        """The first that was said of it, from now on, for which that holds."""
        ends_at, version = time.monotonic() + seconds, -1
        while time.monotonic() < ends_at:
            seen = self.host.wait(spec.id, version, 1.0)
            if seen is not None:
                version = seen.version
                if is_so(seen):
                    return seen
        raise TimeoutError(f"{spec.name} did not come so far within {seconds} s: {self.host.observe(spec.id)}")

    def changed(self, spec: ServiceSpec, script: str | None = None, **fields: Any) -> ServiceSpec:
        """The spec after a change: with a script, a new revision."""
        if script is not None:
            fields |= {"code": (self.file("score.py", script),), "revision": spec.revision + 1}
        return replace(spec, generation=spec.generation + 1, **fields)

    def log(self, spec: ServiceSpec) -> str:
        return self.host.read_log(spec.id, 0, 1 << 20)[0].decode("utf-8")

    def workers(self, spec: ServiceSpec) -> list[int]:
        return [replica["pid"] for replica in self.host.metrics(spec.id)["replicas"]]

    def gateway(self) -> int:
        return int(json.loads((self.home / "gateway.json").read_bytes())["pid"])

    def close(self) -> None:
        for service_id in self.host.service_ids():
            self.host.remove(service_id)


def ask(port: int, body: bytes = b'"hello"', *, seconds: float = 30.0) -> tuple[int, Any]:
    """Status and answer of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("POST", "/score", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    with suppress(ValueError):
        return answer.status, json.loads(text)
    return answer.status, text


def eventually(look: Callable[[], T], what: str, seconds: float = 20.0) -> T:
    """The first true answer of `look`."""
    ends_at = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > ends_at:
            raise TimeoutError(f"No sign of {what} within {seconds} s.")
        time.sleep(0.01)
    return found


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    return False
