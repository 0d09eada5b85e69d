"""The first process of a container, tried without one: what it starts, and what it tells its node."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.node.containers.spec import INSIDE, renumber_gpus
from runyard.node.processes.procfs import descendants

WAIT_SECONDS = 120


class Started:
    """A starter with these processes, and a reader of its events."""

    def __init__(self, folder: Path, python: str, processes: list[dict], **config) -> None:
        self.folder = folder
        os.mkfifo(folder / "news")
        self._events = os.open(folder / "news", os.O_RDONLY | os.O_NONBLOCK)
        body = {"work": str(folder), "home": str(folder / "home"), "news": str(folder / "news"), "shown": {}, **config}
        (folder / "told.json").write_text(json.dumps({**body, "processes": processes}))
        words = [python, "-I", "-S", "-E", str(INSIDE / "starter.py"), str(folder / "told.json")]
        self.process = subprocess.Popen(words, env={"PATH": os.defpath, "HOME": "/nowhere", "IMAGE": "own"})

    def next_events(self) -> list[str]:
        """Events reported since the last call; waits for the first."""
        assert select.select([self._events], [], [], WAIT_SECONDS)[0]
        return os.read(self._events, 1 << 16).decode().splitlines()

    def events(self) -> list[str]:
        """All that it reported, once it has ended."""
        self.process.wait(WAIT_SECONDS)
        return self.next_events()


def a_process(folder: Path, *command: str, name: str = "0", **fields) -> dict:
    usual = {"variables": {}, "in_front": {}, "expands": False, "files": None, "log": str(folder / f"log-{name}")}
    return {"name": name, "command": list(command), **usual, **fields}


@pytest.fixture(params=["this Python", "3.6"])
def python(request, interpreter_of) -> str:
    return sys.executable if request.param == "this Python" else interpreter_of(request.param)


def test_it_tells_how_each_process_ended(tmp_path, python):
    processes = [
        a_process(tmp_path, "/bin/sh", "-c", "echo one; exit 3"),
        a_process(tmp_path, "/bin/sh", "-c", "kill -9 $$", name="1"),
    ]
    first, *ends = Started(tmp_path, python, processes).events()
    assert first == "started"
    assert sorted(line.split()[:3] for line in ends) == [["ended", "0", str(3 << 8)], ["ended", "1", "9"]]
    assert sorted((tmp_path / "news.ended").read_text().splitlines()) == [f"0 {3 << 8}", "1 9"]
    assert (tmp_path / "log-0").read_text() == "one\n"


def test_a_process_has_the_images_variables_with_the_runs_on_top(tmp_path, python):
    first = {"PATH": "/first", "PYTHONPATH": "/sdk"}
    Started(tmp_path, python, [a_process(tmp_path, "/usr/bin/env", variables={"OWN": "1"}, in_front=first)]).events()
    said = set((tmp_path / "log-0").read_text().splitlines())
    assert {"IMAGE=own", "OWN=1", f"PATH=/first:{os.defpath}", "PYTHONPATH=/sdk", f"HOME={tmp_path}/home"} <= said


def test_variables_in_arguments_are_filled_in_where_they_are_known(tmp_path, python):
    process = a_process(tmp_path, "/bin/echo", "$GREETING-${IMAGE}", "$NOT_THERE", variables={"GREETING": "hello"})
    Started(tmp_path, python, [{**process, "expands": True}]).events()
    assert (tmp_path / "log-0").read_text() == "hello-own $NOT_THERE\n"


def test_what_cannot_be_started_is_named_before_anything_counts_as_started(tmp_path, python):
    events = Started(tmp_path, python, [a_process(tmp_path, "mpirun-of-nobody", "-np", "2")]).events()
    assert events[0] == "failed 0 mpirun-of-nobody: No such file or directory"
    assert events[1] == "started"
    assert events[2].split()[:3] == ["ended", "0", str(127 << 8)]


def test_it_stays_until_what_others_left_running_has_ended(tmp_path, python):
    orphan = "(sleep 0.3; echo last) & echo first"
    started = Started(tmp_path, python, [a_process(tmp_path, "/bin/sh", "-c", orphan)])
    assert started.events()[0] == "started"
    assert started.process.returncode == 0


def test_data_that_the_engine_does_not_see_is_named(tmp_path, python):
    device = os.stat("/proc").st_dev
    events = Started(tmp_path, python, [a_process(tmp_path, "/bin/true")], shown={str(tmp_path): device}).events()
    assert events == [f"failed - the engine does not see what this machine has mounted at {tmp_path}"]


def test_one_that_is_not_the_first_of_its_namespace_passes_no_signal_on(tmp_path, python):
    """Else it would reach every process of the machine."""
    started = Started(tmp_path, python, [a_process(tmp_path, "/bin/sleep", "600")])
    try:
        assert started.next_events() == ["started"]
        started.process.send_signal(signal.SIGTERM)
        assert started.next_events() == ["asked 15"]
        (script,) = descendants(started.process.pid)
        assert script.is_alive()
    finally:
        for process in (*descendants(started.process.pid),):
            process.send(signal.SIGKILL)
        started.process.wait(WAIT_SECONDS)


def test_gpus_are_numbered_anew_in_a_container():
    assert renumber_gpus({"CUDA_VISIBLE_DEVICES": "2,5"}, ("2", "5")) == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert renumber_gpus({"CUDA_VISIBLE_DEVICES": "1"}, ("2", "5")) == {"CUDA_VISIBLE_DEVICES": "1"}
    uuids = {"CUDA_VISIBLE_DEVICES": "GPU-a"}
    assert renumber_gpus(uuids, ("GPU-a",)) == uuids
