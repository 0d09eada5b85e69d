"""A real worker process over a socketpair, spoken to as the gateway does."""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")
PATIENCE_SECONDS = 30


class Answer(object):
    def __init__(self, id, status, microseconds, head, body):
        self.id, self.status, self.microseconds, self.body = id, status, microseconds, body
        self.headers = dict(json.loads(head.decode("utf-8"))["headers"]) if head else {}

    @property
    def json(self):
        return json.loads(self.body.decode("utf-8"))


class Worker(object):
    """Files below a new folder: azureml-app/ (`code`) and azureml-models/ (`models`: path to text).

    It has the standard library alone, unless `python` names an interpreter whose packages it is to have.
    """

    def __init__(self, code, entry_script="score.py", models=None, served=(), python=None, **facts):
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.app_root = os.path.join(self.folder, "azureml-app")
        self.models_root = os.path.join(self.folder, "azureml-models")
        os.mkdir(self.models_root)
        write_files(self.app_root, code if isinstance(code, dict) else {entry_script: code})
        write_files(self.models_root, models or {})
        self._log = open(os.path.join(self.folder, "log"), "wb")
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(PATIENCE_SECONDS)
        variables = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": self.folder, "PYTHONPATH": SOURCE}
        if "PYTHONPYCACHEPREFIX" in os.environ:
            variables["PYTHONPYCACHEPREFIX"] = os.environ["PYTHONPYCACHEPREFIX"]
        interpreter = [python] if python else [sys.executable, "-S"]
        self.process = subprocess.Popen(
            interpreter + ["-m", "runyard_sdk.scoring.worker", str(theirs.fileno())], pass_fds=[theirs.fileno()],
            cwd=self.app_root, env=variables, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        theirs.close()
        self._stream = self.socket.makefile("rb")
        self.send(b"S", json.dumps(dict({
            "scorer": "script", "service": "test", "entry_script": entry_script, "app_root": self.app_root,
            "models_root": self.models_root, "requests_at_once": 1, "framework_version": "", "models": [
                {"name": name, "version": version} for name, version in served]}, **facts)).encode("utf-8"))

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.hang_up()
        self._log.close()
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            shutil.rmtree(self.folder)

    def first(self):
        """(kind, facts) of the frame that says whether it is ready."""
        kind, payload = self.read()
        return kind, json.loads(payload.decode("utf-8"))

    def ready(self):
        kind, facts = self.first()
        if kind != b"H":
            raise AssertionError("The worker did not get ready: %s" % facts)
        return facts

    def failed(self):
        kind, facts = self.first()
        if kind != b"F":
            raise AssertionError("The worker got ready: %s" % facts)
        return facts

    def ask(self, body=b"", head=None):
        self.send_requests([(0, head, body)])
        answer, = self.answers()
        return answer

    def send_requests(self, requests):
        """[(id, head or None, body)] in one frame."""
        payload = [struct.pack(">H", len(requests))]
        for id, head, body in requests:
            head = json.dumps(head).encode("utf-8") if head else b""
            body = body if isinstance(body, bytes) else body.encode("utf-8")
            payload += [struct.pack(">III", id, len(head), len(body)), head, body]
        self.send(b"R", b"".join(payload))

    def answers(self):
        """Those of the next frame."""
        kind, payload = self.read()
        if kind != b"A":
            raise AssertionError("Expected answers, got %r" % kind)
        count, = struct.unpack_from(">H", payload)
        at, found = 2, []
        for _ in range(count):
            id, status, microseconds, head, body = struct.unpack_from(">IHIII", payload, at)
            at += 18
            found.append(Answer(id, status, microseconds, payload[at:at + head], payload[at + head:at + head + body]))
            at += head + body
        return found

    def send(self, kind, payload):
        self.socket.sendall(struct.pack(">I", 1 + len(payload)) + kind + payload)

    def read(self):
        """(kind, payload) of the next frame; AssertionError with the log where the worker has ended."""
        start = self._stream.read(4)
        if len(start) < 4:
            raise AssertionError("The worker ended: %s" % self.log())
        whole = self._stream.read(*struct.unpack(">I", start))
        return whole[:1], whole[1:]

    def hang_up(self):
        self._stream.close()
        self.socket.close()

    def log(self):
        with open(os.path.join(self.folder, "log"), "rb") as source:
            return source.read().decode("utf-8")


def write_files(root, files):
    for path, content in files.items():
        target = os.path.join(root, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as sink:
            sink.write(content if isinstance(content, bytes) else content.encode("utf-8"))


def head(method="POST", path="/score", query="", **headers):
    return {"method": method, "path": path, "query": query,
            "headers": [[name.replace("_", "-"), value] for name, value in headers.items()]}
