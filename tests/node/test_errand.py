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
        errand = ForkedTask(_out_of_space, lambda news: None, kept_out=())
    while not errand.is_over:
        assert select.select([errand], [], [], WAIT_SECONDS)[0], "no news of the child"
        errand.read()
    errand.close()
    os.waitpid(errand.pid, 0)
    assert errand.done is None
    assert errand.error is not None
    assert "No space left on device: 'work/train.py'. The disk is full: free space" in errand.error["message"]
