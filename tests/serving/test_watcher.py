"""A killed gateway comes back without the service: its parent starts it again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from runyard.server.lifecycle.control import stop_web_services
from tests.serving.hosting import Hosting, ask, eventually, is_alive


def answers(port: int) -> bool:
    try:
        return ask(port, seconds=5.0)[0] == 200
    except OSError:
        return False


def parent_of(pid: int) -> int:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as source:
        return int(source.read().rpartition(")")[2].split()[1])


def test_a_killed_gateway_is_back_with_no_service_there(hosting: Hosting, record_property) -> None:
    spec = hosting.spec()
    port = hosting.deploy(spec).port
    for _ in range(2):
        killed, began = hosting.gateway(), time.monotonic()
        os.kill(killed, signal.SIGKILL)
        eventually(lambda killed=killed: hosting.gateway() != killed and answers(port), "another gateway")
        record_property("seconds until it answers again", round(time.monotonic() - began, 2))
        assert not is_alive(killed)
    assert hosting.host.observe(spec.id).port == port


def test_the_next_start_brings_both_back(hosting: Hosting) -> None:
    port = hosting.deploy(hosting.spec()).port
    gateway = hosting.gateway()
    watcher = parent_of(gateway)
    os.kill(watcher, signal.SIGKILL)
    os.kill(gateway, signal.SIGKILL)
    eventually(lambda: not is_alive(watcher) and not is_alive(gateway), "the end of both")
    hosting.host.revive()
    eventually(lambda: answers(port), "its answer")


def test_a_gateway_goes_on_without_its_parent(hosting: Hosting) -> None:
    port = hosting.deploy(hosting.spec()).port
    gateway = hosting.gateway()
    os.kill(parent_of(gateway), signal.SIGKILL)
    assert ask(port)[0] == 200
    assert hosting.gateway() == gateway


def test_one_that_is_asked_to_leave_is_not_started_again(hosting: Hosting) -> None:
    hosting.deploy(hosting.spec())
    gateway = hosting.gateway()
    watcher = parent_of(gateway)
    os.kill(gateway, signal.SIGKILL)  # also while it is coming back
    stop_web_services(hosting.home)
    eventually(lambda: not is_alive(watcher), "the end of its parent")
    assert not is_alive(hosting.gateway())


def test_a_gateway_whose_starter_was_killed_goes_on(home: Path) -> None:
    reads, told = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "runyard.serving.gateway", str(home), str(told)]
    watcher = subprocess.Popen(command, pass_fds=[told])
    os.close(told)
    eventually((home / "gateway.json").exists, "the gateway's facts")
    stop_web_services(home)
    assert watcher.wait(30) == 0
