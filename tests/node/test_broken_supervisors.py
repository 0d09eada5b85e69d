import os
import signal

from runyard.model.plan import PortWish
from tests.node.conftest import a_rank
from tests.node.test_parts import SLEEPS, parts, pid_of_rank


def test_a_killed_supervisor_is_told_with_the_rank_and_the_last_lines_of_its_own_node(submit_to_nodes, service, home):
    submit_to_nodes(SLEEPS, [a_rank(0)], [a_rank(1), a_rank(2)])
    pids = [pid_of_rank(service, rank) for rank in range(3)]
    os.kill(parts(home, 2)[1].supervisor().pid, signal.SIGKILL)
    first, second = service.all_ended(2)
    assert (second["rank"], second["log"]) == (1, "azureml-logs/70_driver_log_1.txt")
    assert second["tail"] == f"pid={pids[1]}"
    assert (first["error"], first["rank"]) == (None, None)


def test_a_killed_supervisor_leaves_no_ports_behind(submit_to_nodes, service, home):
    wishes = ((PortWish("first", 24222),), (PortWish("second", 24222),))
    submit_to_nodes(SLEEPS, [a_rank(0)], [a_rank(1)], ports=wishes)
    for rank in range(2):
        pid_of_rank(service, rank)
    os.kill(parts(home, 2)[0].supervisor().pid, signal.SIGKILL)
    service.all_ended(2)
    service.wait_for(lambda: not parts(home, 2)[0].root.exists())
    assert not (home / "ports" / "run1.1").exists()


def test_what_no_process_can_be_started_with_is_told_as_the_nodes_failure(submit_to_nodes, service):
    submit_to_nodes(SLEEPS, [a_rank(0)], [a_rank(1, BAD="a\0b")])
    first, second = service.all_ended(2)
    assert (second["outcome"], second["lost"], second["rank"]) == ("failed", False, None)
    assert second["error"]["message"] == "The node supervisor failed: ValueError: embedded null byte."
    assert (first["outcome"], first["error"]) == ("failed", None)
