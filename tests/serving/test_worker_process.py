import asyncio
import socket
from pathlib import Path
from subprocess import Popen
from types import SimpleNamespace
from typing import Any

import pytest

from runyard.serving.workers import process
from runyard.serving.workers.process import WorkerProcess
from tests.serving.links import in_loop


class Sleeper(WorkerProcess):
    """A worker that says nothing and ends when it is killed."""

    def __init__(self, home: Path) -> None:
        folder: Any = SimpleNamespace(id="service", home=home)
        revision: Any = SimpleNamespace(requests_at_once=1)
        log: Any = SimpleNamespace(end=lambda: 0, write_line=lambda line: None, since=lambda start, lines: "")
        super().__init__(folder, revision, log, home)

    def _spawn(self, theirs: socket.socket) -> "Popen[bytes]":
        return Popen(["sleep", "60"], pass_fds=(theirs.fileno(),))


@pytest.mark.parametrize("steps", range(8))
def test_a_worker_that_is_ended_at_any_step_of_its_start_leaves_nobody_waiting(steps, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(process, "start_facts", lambda folder, revision: {"models": []})

    async def test() -> None:
        worker = Sleeper(tmp_path)
        worker.start()
        for _ in range(steps):
            await asyncio.sleep(0)
        await worker.finish(0)
        assert worker.died.result() == "The worker was asked to end."

    in_loop(test())


def test_a_worker_that_cannot_be_told_what_to_load_is_ended_with_the_reason(tmp_path, monkeypatch) -> None:
    def gone(folder: Any, revision: Any) -> dict[str, Any]:
        raise FileNotFoundError(2, "No such file or directory", "models.json")

    monkeypatch.setattr(process, "start_facts", gone)

    async def test() -> None:
        worker = Sleeper(tmp_path)
        worker.start()
        await worker.ended
        assert "models.json" in worker.died.result()

    in_loop(test())
