import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.mount_tables import mounted_anywhere
from tests.processes import pids, words_of

pytestmark = [pytest.mark.images, pytest.mark.usefixtures("_able")]
SECONDS = 30.0
STARTED = """
import os, signal, sys
from runyard.environments.containers.containers import ContainerSpec
from runyard.testing.base_images import PLAIN
from runyard.testing.container_engine import running_docker
from tests.images.conftest import engine_folder, imported

folder = engine_folder()
with running_docker(folder) as engine:
    engine.containers.start(engine.containers.create(ContainerSpec(imported(engine, PLAIN), ("sleep", "600"))))
    print(folder, flush=True)
    signal.pause()
"""


def test_a_session_that_is_killed_leaves_no_engine_no_container_and_no_mount() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTED], stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        folder = Path(session.stdout.readline().strip())
        assert folder.is_dir()
        assert named_by(folder)
        session.send_signal(signal.SIGKILL)
    ends_at = time.monotonic() + SECONDS
    # The guard removes the folder, then ends; its own command line names the folder until then.
    while (folder.exists() or named_by(folder)) and time.monotonic() < ends_at:
        time.sleep(0.05)
    assert not folder.exists()
    assert not named_by(folder)
    assert not list(mounted_anywhere(folder))
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{folder.name}"))


def named_by(folder: Path) -> list[int]:
    needle = os.fsencode(folder)
    return [pid for pid in pids() if any(needle in text for text in words_of(pid)) and pid != os.getpid()]
