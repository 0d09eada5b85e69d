"""A service that only remembers: the peer of supervisors in these tests, with the wire's rules on offsets."""

import hashlib
import json
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from runyard.core.data_json import data_to_json
from runyard.core.errors import AttemptOver, BlobsMissing, NotFound, RunyardError, to_wire
from runyard.core.records.data import DataForAttempt, NetworkRules
from runyard.core.records.nodes import NodeTask, NodeTaskState
from runyard.core.records.runs import AttemptId
from runyard.runs.scheduling.attempt_outcome import decide_attempt

WAIT_SECONDS = 120.0


class RecordingService:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.logs: dict[str, bytes] = {}
        self.journals: dict[str, bytes] = {}
        self.files: dict[str, bytes] = {}
        self.adopts: list[int] = []
        self.reports: list[dict] = []
        self.blobs: dict[str, bytes] = {}
        self.data = DataForAttempt({}, {}, NetworkRules())
        self.data_refusal: RunyardError | None = None
        self.stores_are_away = False
        self.outputs: list[dict] = []
        self.package_settings: dict = {}
        self.environments: dict[str, dict] = {}
        self.largest_body = 0
        self.answers_cancel = False
        self.is_over = False
        self.takes_files = threading.Event()
        self.takes_files.set()
        self.run_files: dict[str, bytes] = {}
        self.blob_requests: list[str] = []
        self._parts: dict[tuple[str, int], NodeTask] = {}
        self._node_counts: dict[str, int] = {}
        self._stop: Callable[[str, str], None] = lambda attempt_id, end_as: None
        self.refuses_with: int | None = None
        self._changed = threading.Condition()
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        service = self

        class Handler(_Handler):
            recorder = service

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        beside = self.home / ".service.json"
        beside.write_text(json.dumps({"url": f"http://127.0.0.1:{self._server.server_port}", "token": "t"}))
        beside.rename(self.home / "service.json")

    def stop(self) -> None:
        (self.home / "service.json").unlink(missing_ok=True)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def wait_for(self, what, seconds: float = WAIT_SECONDS):
        """The first true value of `what()`; it is looked at whenever something arrived."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not (value := what()):
                left = deadline - time.monotonic()
                assert left > 0, f"nothing came in {seconds} s; reports: {self.reports}, logs: {list(self.logs)}"
                self._changed.wait(min(left, 0.5))
        return value

    def gather(self, attempt_id: str, node_count: int, stop: Callable[[str, str], None]) -> None:
        """Decide for these nodes as the real service does; `stop` is called with the attempt and what it ends as."""
        self._node_counts[attempt_id], self._stop = node_count, stop

    def report(self, state: str, attempt_id: str | None = None, node: int | None = None) -> dict | None:
        for report in self.reports:
            if (state, True, True) == (
                report["state"],
                attempt_id in (None, report["attempt_id"]),
                node in (None, report["node"]),
            ):
                return report
        return None

    def all_ended(self, node_count: int, attempt_id: str = "run1.1") -> list[dict]:
        """The last reports of all nodes, by node."""
        reports = [
            self.wait_for(lambda node=node: self.report("ended", attempt_id, node)) for node in range(node_count)
        ]
        return reports

    def ended(self, attempt_id: str | None = None, seconds: float = WAIT_SECONDS) -> dict:
        return self.wait_for(lambda: self.report("ended", attempt_id), seconds)

    def take(self, method: str, path: str, query: dict[str, str], body: bytes) -> tuple[int, dict | bytes]:
        if parts_of(path)[-1] == "adopt":
            self.takes_files.wait(WAIT_SECONDS)
        with self._changed:
            self.largest_body = max(self.largest_body, len(body))
            if self.refuses_with is not None:
                return self.refuses_with, {"code": "storage_full", "problem": "full", "hint": "", "facts": {}}
            if self.is_over and parts_of(path)[-1] != "report":
                return 409, to_wire(AttemptOver("The run has ended."))
            answer = self._route(method, parts_of(path), query, body)
            self._changed.notify_all()
            return answer

    def _route(self, method: str, parts: list[str], query: dict[str, str], body: bytes) -> tuple[int, dict | bytes]:
        match method, parts:
            case "GET", ["health"]:
                return 200, {"shares_files": True}
            case "POST", ["attempts", attempt_id, "report"]:
                self.reports.append({**json.loads(body), "attempt_id": attempt_id})
                return 200, self._answer(attempt_id, json.loads(body))
            case "GET", ["attempts", _, "data"]:
                return self._data(stores_only=query.get("stores") == "1")
            case "POST", ["attempts", _, "outputs"]:
                self.outputs.append(json.loads(body))
                return 200, {}
            case "GET", ["runs", _, "logs"]:
                return 200, {name: len(content) for name, content in self.logs.items()}
            case "GET", ["runs", _, "journals"]:
                return 200, {name: len(content) for name, content in self.journals.items()}
            case "GET", ["attempts", _, "environment"]:
                kept = self.environments.get(query["key"])
                return (200, kept) if kept is not None else (404, to_wire(NotFound("No node has made it.")))
            case "POST", ["attempts", _, "environment"]:
                self.environments[json.loads(body)["key"]] = json.loads(body)
                return 200, {}
            case "GET", ["attempts", _, "packages"]:
                return 200, {"settings": self.package_settings, "registries": {}}
            case "POST", ["runs", _, "logs", *path]:
                return self._append(self.logs, "/".join(path), int(query["offset"]), body)
            case "POST", ["runs", _, "journals", name]:
                return self._append(self.journals, name, int(query["offset"]), body)
            case "POST", ["runs", _, "files", "adopt"]:
                return self._adopt(json.loads(body))
            case "GET", ["runs", _, "files"]:
                return 200, {"files": [self._file(path) for path in self.run_files if path.startswith(query["prefix"])]}
            case "POST", ["runs", _, "files"]:
                return self._register(json.loads(body)["entries"])
            case "POST", ["blobs", "pack"]:
                self.blob_requests.append("pack")
                return self._unpack(body)
            case "PUT", ["blobs", name]:
                self.blob_requests.append(name)
                self.blobs[name] = body
                return 200, {}
            case "GET", ["blobs", name] if name in self.blobs:
                return 200, self.blobs[name]
        return 404, {"code": "not_found", "problem": f"{method} {parts}", "hint": "", "facts": {}}

    def _answer(self, attempt_id: str, body: dict) -> dict:
        count = self._node_counts.get(attempt_id)
        if self.is_over or count is None or body["state"] not in list(NodeTaskState):
            return {"cancel": self.answers_cancel or self.is_over, "end_as": "canceled", "roster": None}
        key, state = (attempt_id, body["node"]), NodeTaskState(body["state"])
        known = self._parts.get(key)
        facts = {**(known.facts if known else {}), **body}
        order = list(NodeTaskState)
        if known is not None:
            state = max(known.state, state, key=order.index)
        self._parts[key] = NodeTask(AttemptId(attempt_id), body["node"], state, datetime.now(UTC), facts)
        decision = decide_attempt(count, [part for (owner, _), part in self._parts.items() if owner == attempt_id])
        if decision.stop is not None:
            self._stop(attempt_id, decision.stop)
        stop = "canceled" if self.answers_cancel else decision.stop
        return {"cancel": stop is not None, "end_as": stop or "canceled", "roster": decision.roster}

    def _file(self, path: str) -> dict:
        content = self.run_files[path]
        sha256 = hashlib.sha256(content).hexdigest()
        self.blobs[sha256] = content
        return {"path": path, "sha256": sha256, "size": len(content)}

    def _register(self, entries: list) -> tuple[int, dict]:
        missing = [sha256 for _, sha256, _, _ in entries if sha256 not in self.blobs]
        if missing:
            return 409, to_wire(BlobsMissing("Some blobs are missing.", sha256=missing))
        self.files.update({path: self.blobs[sha256] for path, sha256, _, _ in entries})
        return 204, {}

    def _unpack(self, body: bytes) -> tuple[int, dict]:
        while body:
            head, _, rest = body.partition(b"\n")
            sha256, size = head.decode().split()
            self.blobs[sha256], body = rest[: int(size)], rest[int(size) :]
        return 204, {}

    def _data(self, *, stores_only: bool) -> tuple[int, dict]:
        if stores_only and self.stores_are_away:
            return 503, {}
        if self.data_refusal is not None:
            return self.data_refusal.status, to_wire(self.data_refusal)
        return 200, data_to_json(replace(self.data, datasets={}) if stores_only else self.data)

    def _append(self, store: dict[str, bytes], name: str, offset: int, body: bytes) -> tuple[int, dict]:
        stored = store.get(name, b"")
        if offset > len(stored):
            return 409, {"code": "conflict", "problem": "gap", "hint": "", "facts": {}}
        store[name] = stored + body[len(stored) - offset :]
        return 200, {"offset": len(store[name])}

    def _adopt(self, body: dict) -> tuple[int, dict]:
        self.adopts.append(len(body["paths"]))
        for path in body["paths"]:
            file = Path(body["root"]) / path
            if file.exists():
                self.files[path] = file.read_bytes()
        return 200, {"entries": []}


def parts_of(path: str) -> list[str]:
    return path.split("/")[3:]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    recorder: RecordingService

    def _serve(self) -> None:
        address = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = dict(urllib.parse.parse_qsl(address.query))
        status, answer = self.recorder.take(self.command, urllib.parse.unquote(address.path), query, body)
        payload = answer if isinstance(answer, bytes) else json.dumps(answer).encode() if status != 204 else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    do_GET = do_POST = do_PUT = _serve

    def log_message(self, *args) -> None:
        return
