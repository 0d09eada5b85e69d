import os
import subprocess
import sys
from pathlib import Path

from runyard.node import keeper
from runyard.node.attempt import AttemptFolder


def test_a_supervisor_killed_while_the_script_starts_does_not_take_the_keeper_along(tmp_path: Path) -> None:
    """Nobody reads the pids that the keeper tells; it keeps the exit status all the same."""
    root = tmp_path / "home" / "attempts" / "run.1"
    (root / "ends").mkdir(parents=True)
    told, tell = os.pipe()
    go, say_go = os.pipe()
    os.write(say_go, b"1")
    os.close(told)
    pid = os.fork()
    if pid == 0:
        script = [sys.executable, "-c", "raise SystemExit(3)"]
        starts = {"0": lambda: subprocess.Popen(script).pid}
        keeper._be_keeper(AttemptFolder(tmp_path / "home", "run.1"), starts, go, tell, (), ())
    for descriptor in (tell, go, say_go):
        os.close(descriptor)
    os.waitpid(pid, 0)
    assert b'"status": 768' in (root / "ends" / "0").read_bytes()
