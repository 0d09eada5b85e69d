import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.process import ServerProcess

STARTED_AND_LEFT = """
import os, sys
from pathlib import Path
from tests.servers.process import ServerProcess
server = ServerProcess(Path(sys.argv[1]))
server.start([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(server.port)], dict(os.environ))
print(server.port, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_server_ends_with_a_killed_test_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTED_AND_LEFT, str(tmp_path)]
    left = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert left.returncode == -9
    server = ServerProcess(tmp_path)
    server.port = int(left.stdout)
    server.wait_until_gone()


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    with pytest.raises(RuntimeError, match="no such module"):
        server.start([sys.executable, "-c", "raise SystemExit('no such module')"], dict(os.environ))


def test_a_server_comes_back_on_its_port(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(server.port)]
    for end in (server.kill, server.stop):
        server.start(command, dict(os.environ))
        end()
