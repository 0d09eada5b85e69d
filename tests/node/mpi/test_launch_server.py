import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from runyard.node.mpi import rsh_agent
from runyard.node.mpi.launch_server import LaunchServer
from runyard.node.processes.event_loop import EventLoop, now
from runyard.node.task_folder import TaskFolder
from tests.node.mpi.job import SECRET, mpi_plan

AGENT = Path(rsh_agent.__file__)


class OpenDoor:
    """A launch server with a loop that the test turns. What is asked for is a process of the test's own."""

    def __init__(self, folder: TaskFolder, *, shares_files: bool = True, starts: tuple[str, ...] = ("sleep", "60")):
        self.loop, self.folder = EventLoop(), folder
        self.started: list[int] = []
        self.ended: list[int] = []
        self.asked: list[list[str]] = []
        self.starts = starts
        plan = mpi_plan(["127.0.3.2", "127.0.3.3"], 1, node=1, shares_files=shares_files)
        self.server = LaunchServer(plan, folder, self._start, self._end, self.loop.on_readable, self.loop.forget)

    def turn_until(self, is_done, seconds: float = 10.0) -> None:
        ends_at = now() + seconds
        while not is_done():
            assert now() < ends_at
            self.loop.wait(0.02)
            for pid in self.started:
                if (status := self.loop.exit_status(pid)) is not None:
                    self.server.ended(pid, status)

    def connect(self) -> socket.socket:
        kind, _, place = self.server.address.partition(":")
        made = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
        made.connect(place if kind == "unix" else (place.rpartition(":")[0], int(place.rpartition(":")[2])))
        made.setblocking(False)
        return made

    def answer_to(self, connection: socket.socket) -> bytes:
        """All that comes until the server hangs up."""
        said = bytearray()

        def has_hung_up() -> bool:
            try:
                piece = connection.recv(1 << 16)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True
            said.extend(piece)
            return not piece

        self.turn_until(has_hung_up)
        return bytes(said)

    def agent(self, *words: str, secret: str = SECRET, python: str = sys.executable) -> subprocess.Popen[bytes]:
        """The real program, asking this server for these words."""
        servers_file = self.folder.scripts / "doors.json"
        servers_file.write_text(
            json.dumps({"secret": secret, "doors": {"127.0.3.3": self.server.address}}), encoding="utf-8"
        )
        command = [python, "-I", "-S", "-E", str(AGENT), str(servers_file), "127.0.3.3", *words]
        return subprocess.Popen(command, stderr=subprocess.PIPE)

    def exit_code_of(self, agent: subprocess.Popen[bytes]) -> int:
        self.turn_until(lambda: self.loop.exit_status(agent.pid) is not None)
        status = self.loop.exit_status(agent.pid)
        agent.returncode = 0
        assert status is not None
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        self.server.close()
        for pid in self.started:
            if self.loop.exit_status(pid) is None:
                os.kill(pid, signal.SIGKILL)
        self.turn_until(lambda: all(self.loop.exit_status(pid) is not None for pid in self.started))
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def _start(self, words: list[str]) -> int:
        self.asked.append(words)
        process = subprocess.Popen(self.starts, start_new_session=True)
        process.returncode = 0
        self.started.append(process.pid)
        return process.pid

    def _end(self, pid: int) -> None:
        self.ended.append(pid)
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(params=[True, False], ids=["by file", "by address"])
def opened(tmp_path, request):
    folder = TaskFolder(tmp_path / ("deep" * 40), "run-1-1")
    folder.make_room()
    made = OpenDoor(folder, shares_files=request.param)
    if request.param:
        folder = os.open(folder.scripts, os.O_PATH)
        made.connect = lambda: _connected(f"/proc/self/fd/{folder}/door.sock")
    yield made
    made.close()
    if request.param:
        os.close(folder)


def _connected(place: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(place)
    connection.setblocking(False)
    return connection


@pytest.mark.parametrize("secret", ["short", "long" * 40])
def test_a_proof_is_an_hmac_of_what_is_said(secret):
    expected = hmac.new(secret.encode(), "asks\0a\0b\0orted\0é".encode(), hashlib.sha256).hexdigest()
    assert rsh_agent.proof(secret, "asks", ["a", "b"], ["orted", "é"]) == expected


def test_who_has_the_secret_gets_what_it_asks_for_and_hears_how_it_ends(opened):
    opened.starts = ("sh", "-c", "exit 7")
    agent = opened.agent("orted", "-mca", '"a b"')
    assert opened.exit_code_of(agent) == 7
    assert opened.asked == [["orted", "-mca", '"a b"']]


def test_a_supervisor_that_somebody_has_stopped_is_waited_for(opened, monkeypatch):
    monkeypatch.setattr(rsh_agent, "TIMEOUT_SECONDS", 0.1)
    opened.starts, codes = ("sh", "-c", "exit 7"), []
    agent = threading.Thread(target=lambda: codes.append(rsh_agent.ask(opened.server.address, SECRET, ["orted"])))
    agent.start()
    time.sleep(0.5)
    opened.turn_until(lambda: codes)
    agent.join()
    assert codes == [7]


@pytest.mark.parametrize("version", ["3.6", "3.13"])
def test_the_agent_runs_on_old_and_new_interpreters(opened, version, interpreter_of):
    opened.starts = ("true",)
    assert opened.exit_code_of(opened.agent("orted", python=interpreter_of(version))) == 0


def test_a_wrong_secret_starts_nothing(opened):
    agent = opened.agent("orted", secret="guessed")
    assert opened.exit_code_of(agent) == 255
    assert b"does not show the run's secret" in agent.stderr.read()
    assert not opened.started


def test_a_request_that_was_overheard_opens_nothing_again(opened):
    """The server's nonce is part of the proof."""
    first = opened.connect()
    nonces, words = ["another conversation's", "own"], ["orted"]
    overheard = {"nonce": "own", "words": words, "proof": rsh_agent.proof(SECRET, "asks", nonces, words)}
    first.send(json.dumps(overheard).encode() + b"\n")
    assert b"does not show" in opened.answer_to(first)
    assert not opened.started


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"{}\n",
        b"[]\n",
        b'{"nonce": 1, "words": "orted", "proof": null}\n',
        b'{"nonce": "a", "words": ["orted"], "proof": "\\ud800"}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_garbage_is_shown_out(opened, garbage):
    stranger = opened.connect()
    stranger.setblocking(True)
    stranger.sendall(garbage)
    stranger.setblocking(False)
    assert b"error" in opened.answer_to(stranger)
    assert not opened.started


def test_a_request_without_end_is_cut_off(opened):
    stranger = opened.connect()
    sent = 0

    def is_cut_off() -> bool:
        nonlocal sent
        try:
            sent += stranger.send(b"x" * 65536)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return False

    opened.turn_until(is_cut_off)
    assert sent < 8 << 20


def test_silent_strangers_keep_nobody_out(opened):
    silent = [opened.connect() for _ in range(60)]
    opened.turn_until(lambda: opened.server.seconds_to_next() is not None)
    opened.starts = ("true",)
    assert opened.exit_code_of(opened.agent("orted")) == 0
    for stranger in silent:
        stranger.close()


def test_a_silent_stranger_is_shown_out_after_a_while(opened, monkeypatch):
    stranger = opened.connect()
    opened.turn_until(lambda: opened.server.seconds_to_next() is not None)
    monkeypatch.setattr("runyard.node.mpi.launch_server.now", lambda: now() + 11)
    opened.server.expire()
    assert b"nonce" in opened.answer_to(stranger)
    assert opened.server.seconds_to_next() is None


def test_a_daemon_ends_with_who_asked_for_it(opened):
    agent = opened.agent("orted")
    opened.turn_until(lambda: opened.started)
    agent.kill()
    opened.turn_until(lambda: opened.ended)
    assert opened.ended == opened.started


def test_a_daemon_that_cannot_be_started_is_told_to_who_asked(opened):
    opened.starts = ("/nonexistent/orted",)
    agent = opened.agent("orted")
    assert opened.exit_code_of(agent) == 255
    assert b"/nonexistent/orted" in agent.stderr.read()


def test_the_socket_is_its_owners_alone(tmp_path):
    folder = TaskFolder(tmp_path, "run-1-1")
    folder.make_room()
    made = OpenDoor(folder)
    assert (folder.scripts / "door.sock").stat().st_mode & 0o777 == 0o600
    made.close()
