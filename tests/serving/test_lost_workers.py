"""Workers that are killed, crash, hang, eat memory or fail to come back."""

import json
import os
import signal
import threading

import pytest

from runyard.core.records.web_services import Scale, ServiceState, ServingLimits
from tests.serving.hosting import ECHO, Hosting, ask, eventually, is_alive
from tests.serving.load import under_load

pytestmark = pytest.mark.slow

BY_WISH = """
import ctypes, os, subprocess, sys, time

def init():
    if os.path.exists("../broken"):
        raise ValueError("broken meanwhile")

def run(body):
    if "segfault" in body:
        ctypes.string_at(0)
    if "exit" in body:
        os._exit(3)
    if "hang" in body:
        time.sleep(600)
    if "eat" in body:
        held = []
        while True:
            held.append(os.urandom(1 << 20))
    if "child" in body:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        return child.pid
    return os.getpid()
"""


def test_a_killed_worker_is_replaced(hosting: Hosting) -> None:
    seen = hosting.deploy(spec := hosting.spec(BY_WISH))
    _, pid = ask(seen.port)
    os.kill(pid, signal.SIGKILL)
    fresh = eventually(lambda: [worker for worker in hosting.workers(spec) if worker != pid], "another worker")
    assert ask(seen.port) == (200, fresh[0])
    assert "SIGKILL" in hosting.log(spec)
    assert hosting.host.metrics(spec.id)["replicas"][0]["restarts"] == 1


def test_a_worker_that_cannot_be_started_at_all_says_why(hosting: Hosting) -> None:
    """Somebody has been at the files of a web service."""
    seen = hosting.deploy(spec := hosting.spec())
    os.kill(hosting.gateway(), signal.SIGKILL)
    facts = hosting.home / "services" / spec.id / "r1" / "revision.json"
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "variables": {"ODD": "a\0b"}}))
    hosting.host.revive()
    seen = hosting.until(spec, lambda seen: seen.trouble is not None and "ValueError" in seen.trouble.problem)
    assert seen.state is ServiceState.UNHEALTHY


def test_killed_under_load_only_what_was_begun_is_answered_502(hosting: Hosting) -> None:
    seen = hosting.deploy(spec := hosting.spec(BY_WISH, scale=Scale(least=2, most=2)))
    hosting.until(spec, lambda seen: seen.replicas == 2)
    with under_load(seen.port) as load:
        for _ in range(3):
            eventually(lambda: len(hosting.workers(spec)) == 2, "two workers")
            before = load.statuses[200]
            os.kill(hosting.workers(spec)[0], signal.SIGKILL)
            eventually(lambda b=before: load.statuses[200] > b + 50, "answers after the kill")
    assert set(load.statuses) <= {200, 502}
    assert load.statuses[502] <= 3


@pytest.mark.parametrize(("wish", "cause"), [("segfault", "SIGSEGV"), ("exit", "exit code 3")])
def test_a_request_that_ends_its_worker_is_answered_502_with_the_cause(hosting: Hosting, wish: str, cause: str) -> None:
    seen = hosting.deploy(spec := hosting.spec(BY_WISH))
    status, answer = ask(seen.port, wish.encode())
    assert status == 502
    assert cause in str(answer)
    assert cause in hosting.log(spec)
    assert ask(seen.port)[0] == 200


def test_a_worker_that_hangs_is_answered_504_dumped_and_replaced(hosting: Hosting) -> None:
    spec = hosting.spec(BY_WISH, limits=ServingLimits(scoring_seconds=0.5))
    seen = hosting.deploy(spec)
    (hung,) = hosting.workers(spec)
    assert ask(seen.port, b"hang")[0] == 504
    eventually(lambda: hosting.workers(spec) not in ([], [hung]), "another worker")
    assert ask(seen.port)[0] == 200
    assert not is_alive(hung)
    assert "run (score.py:" in hosting.log(spec)


def test_a_worker_over_its_memory_limit_is_replaced_and_its_requests_hear_why(hosting: Hosting) -> None:
    spec = hosting.spec(BY_WISH, limits=ServingLimits(memory_bytes=120 << 20))
    seen = hosting.deploy(spec)
    status, answer = ask(seen.port, b"eat")
    assert (status, "limit of 120 MB" in str(answer)) == (502, True), answer
    assert "limit of 120 MB" in hosting.log(spec)
    assert ask(seen.port)[0] == 200


def test_an_init_over_the_memory_limit_is_a_failed_deployment(hosting: Hosting) -> None:
    script = "import os\ndef init():\n    held = [os.urandom(1 << 20) for _ in range(100_000)]\ndef run(body): pass\n"
    seen = hosting.deploy(hosting.spec(script, limits=ServingLimits(memory_bytes=120 << 20)))
    assert seen.trouble is not None
    assert "limit of 120 MB" in seen.trouble.problem


def test_what_a_worker_has_started_ends_with_it(hosting: Hosting) -> None:
    seen = hosting.deploy(spec := hosting.spec(BY_WISH))
    _, child = ask(seen.port, b"child")
    (worker,) = hosting.workers(spec)
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: not is_alive(child), "the end of the child")


def test_without_a_worker_it_is_unhealthy_says_why_and_tries_on(hosting: Hosting) -> None:
    spec = hosting.spec(BY_WISH)
    seen = hosting.deploy(spec)
    broken = hosting.home / "services" / spec.id / "r1" / "broken"
    broken.touch()
    os.kill(hosting.workers(spec)[0], signal.SIGKILL)
    told = hosting.until(spec, lambda seen: seen.trouble is not None and "broken meanwhile" in seen.trouble.problem)
    assert (told.state, told.revision, told.replicas) == (ServiceState.UNHEALTHY, 1, 0)
    status, answer = ask(seen.port)
    assert (status, "broken meanwhile" in str(answer)) == (503, True), answer
    broken.unlink()
    well = hosting.until(spec, lambda seen: seen.state is ServiceState.HEALTHY)
    assert (well.trouble, ask(seen.port)[0]) == (None, 200)


def test_replicas_follow_the_load_between_their_bounds(hosting: Hosting) -> None:
    slow = "import time\ndef init(): pass\ndef run(body):\n    time.sleep(0.05)\n    return 1\n"
    spec = hosting.spec(slow, scale=Scale(least=1, most=3, refresh_seconds=0.1))
    seen = hosting.deploy(spec)
    with under_load(seen.port) as load:
        hosting.until(spec, lambda seen: seen.replicas == 3)
        assert hosting.until(spec, lambda seen: seen.wanted_replicas <= 3).wanted_replicas == 3
    hosting.until(spec, lambda seen: seen.wanted_replicas == 1)
    assert set(load.statuses) == {200}


def test_many_services_are_removed_at_once(hosting: Hosting) -> None:
    specs = [hosting.spec(ECHO) for _ in range(4)]
    for spec in specs:
        hosting.host.apply(spec)
    removals = [threading.Thread(target=hosting.host.remove, args=(spec.id,)) for spec in specs for _ in range(2)]
    for removal in removals:
        removal.start()
    for removal in removals:
        removal.join()
    assert hosting.host.service_ids() == []
