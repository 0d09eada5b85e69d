"""Work in a child of the supervisor: what it gives or meets is heard, also where its log cannot be written."""

import errno
import os
import select
import sys
from pathlib import Path

import pytest

from runyard.core.errors import Json
from runyard.node.processes.forked_task import ForkedTask, Notify

WAIT_SECONDS = 30.0


def _out_of_space(tell: Notify) -> Json:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "work/train.py")


def test_a_full_disk_is_heard_of_though_the_log_lies_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", encoding="utf-8", buffering=1) as log, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", log)
        forked = ForkedTask(_out_of_space, lambda message: None, kept_out=())
    while not forked.is_over:
        assert select.select([forked], [], [], WAIT_SECONDS)[0], "no news of the child"
        forked.read()
    forked.close()
    os.waitpid(forked.pid, 0)
    assert forked.done is None
    assert forked.error is not None
    assert "No space left on device: 'work/train.py'. The disk is full: free space" in forked.error["message"]
