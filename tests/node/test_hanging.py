import os
import subprocess
import sys

import pytest

from runyard.node.processes import stack_dump
from runyard.node.processes.procfs import identify
from tests.node.conftest import a_rank, driver_log, is_running, pid_from, rank_log

HANGS = """
import os, time
def a_lock_that_never_comes():
    time.sleep(600)
print('pid=%d' % os.getpid(), flush=True)
a_lock_that_never_comes()
"""


def test_what_every_rank_was_doing_is_in_its_log_when_its_time_is_up(submit_to_nodes, service):
    submit_to_nodes(HANGS, [a_rank(0), a_rank(1)], [a_rank(2)], max_seconds=2)
    ended = service.all_ended(2)
    for rank in range(3):
        assert "a_lock_that_never_comes (train.py:4)" in rank_log(service, rank)
        assert not is_running(pid_from(service, "pid", lambda rank=rank: rank_log(service, rank)))
    assert [report["outcome"] for report in ended] == ["canceled", "canceled"]
    message = ended[0]["error"]["message"]
    assert "took longer than max_run_duration_seconds (2)" in message
    assert "at the end of its log: 70_driver_log_0.txt, 70_driver_log_1.txt." in message


def test_a_single_process_is_looked_at_too(submit, service):
    submit(HANGS, max_seconds=1)
    assert "at the end of its log: 70_driver_log.txt." in service.ended()["error"]["message"]
    assert "a_lock_that_never_comes" in driver_log(service)


@pytest.mark.parametrize("program", [None, "#!/bin/sh\necho no permission >&2\nexit 1\n"])
def test_where_no_dump_can_be_had_the_log_says_why(tmp_path, monkeypatch, program):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    if program is not None:
        (tmp_path / "py-spy").write_text(program)
        (tmp_path / "py-spy").chmod(0o700)
    log = tmp_path / "70_driver_log.txt"
    python = os.path.realpath("/proc/self/exe")
    with log.open("wb") as output:
        child = subprocess.Popen([python, "-c", "import time; time.sleep(600)"], stdout=output)
    try:
        assert stack_dump.dump_stacks([identify(child.pid)], tmp_path) == ["70_driver_log.txt"]
    finally:
        child.kill()
        child.wait()
    wanted = "py-spy is not installed on this node" if program is None else "not known: no permission"
    assert wanted in log.read_text()
