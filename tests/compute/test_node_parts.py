import shutil
import threading
from pathlib import Path

from runyard.core.ports.engine import NodeTaskPhase
from runyard.node.agent_client import AgentClient, NodeTasks


def test_a_part_that_is_removed_while_it_is_looked_at_is_lost(tmp_path: Path) -> None:
    parts, ended = NodeTasks(tmp_path, AgentClient(tmp_path)), threading.Event()

    def come_and_go() -> None:
        for _ in range(1000):
            parts.write_plan("part", {})
            shutil.rmtree(tmp_path / "attempts" / "part", ignore_errors=True)
        ended.set()

    others = threading.Thread(target=come_and_go)
    others.start()
    try:
        while not ended.is_set():
            assert parts.phase("part") is NodeTaskPhase.LOST
    finally:
        others.join()
