"""A new revision beside the old one: whoever asks meanwhile does not notice, whether it is good or bad."""

import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from runyard.core.records.web_services import Scale, ServiceState
from tests.serving.hosting import Hosting, ask, eventually, is_alive
from tests.serving.load import under_load

pytestmark = pytest.mark.slow


def answering(word: str) -> str:
    return f"def init(): pass\ndef run(body):\n    return {word!r}\n"


def taking_a_while(word: str) -> str:
    work = "open('begun', 'w').close()\n    time.sleep(0.7)"
    return f"import time\ndef init(): pass\ndef run(body):\n    {work}\n    return {word!r}\n"


def test_an_update_under_load_fails_no_request(hosting: Hosting) -> None:
    spec = hosting.spec(answering("revision 1"), scale=Scale(least=2, most=2))
    seen = hosting.deploy(spec)
    hosting.until(spec, lambda seen: seen.replicas == 2)
    with under_load(seen.port) as load:
        for number in (2, 3):
            spec = hosting.changed(spec, answering(f"revision {number}"))
            assert hosting.deploy(spec).revision == number
            enough = load.bodies[f'"revision {number}"'.encode()] + 50
            eventually(lambda n=number, e=enough: load.bodies[f'"revision {n}"'.encode()] > e, "the new answers")
    assert set(load.statuses) == {200}
    assert ask(seen.port) == (200, "revision 3")


def test_old_workers_end_and_their_files_go(hosting: Hosting) -> None:
    hosting.deploy(spec := hosting.spec(answering("old")))
    old = hosting.workers(spec)
    hosting.deploy(hosting.changed(spec, answering("new")))
    eventually(lambda: not any(map(is_alive, old)), "the end of the old workers")
    eventually(lambda: not (hosting.home / "services" / spec.id / "r1").exists(), "the removal of the old files")
    assert (hosting.home / "services" / spec.id / "r2").is_dir()


def test_an_update_that_fails_leaves_the_old_revision_answering(hosting: Hosting) -> None:
    spec = hosting.spec(answering("old"))
    port = hosting.deploy(spec).port
    workers = hosting.workers(spec)
    bad = hosting.changed(spec, "def init():\n    raise ValueError('broken')\ndef run(body): pass\n")
    with under_load(port) as load:
        seen = hosting.deploy(bad)
    assert (seen.state, seen.revision, seen.failed_revision) == (ServiceState.HEALTHY, 1, 2)
    assert seen.trouble is not None
    assert "broken" in seen.trouble.problem
    assert set(load.statuses) == {200}
    assert hosting.workers(spec) == workers
    good = hosting.deploy(hosting.changed(bad, answering("good")))
    assert (good.revision, good.trouble) == (3, None)


def test_a_reload_makes_new_workers_from_the_same_files(hosting: Hosting) -> None:
    hosting.deploy(spec := hosting.spec(answering("same")))
    (old,) = hosting.workers(spec)
    seen = hosting.deploy(replace(spec, revision=2, generation=2))
    assert hosting.workers(spec) != [old]
    assert ask(seen.port) == (200, "same")


def test_an_update_to_another_port_moves_it(hosting: Hosting) -> None:
    first = hosting.deploy(spec := hosting.spec(answering("here")))
    other = hosting.deploy(hosting.spec())
    hosting.host.remove("id-service-2")
    moved = hosting.deploy(hosting.changed(spec, answering("there"), port=other.port))
    assert moved.port == other.port != first.port
    assert ask(moved.port) == (200, "there")


def test_the_new_revision_alone_answers_from_the_moment_it_is_said_to(hosting: Hosting) -> None:
    """Also while the old port is still open for a request that goes on there."""
    wait = "open('begun', 'w').close()\n    while not os.path.exists('../go'): time.sleep(0.01)"
    hanging = f"import os, time\ndef init(): pass\ndef run(body):\n    {wait}\n    return 'old'\n"
    spec = hosting.spec(hanging, scale=Scale(least=2, most=2))
    first = hosting.deploy(spec)
    hosting.until(spec, lambda seen: seen.replicas == 2)
    other = hosting.deploy(hosting.spec())
    hosting.host.remove("id-service-2")
    folder = hosting.home / "services" / spec.id / "r1"
    with ThreadPoolExecutor(1) as pool:
        going_on = pool.submit(ask, first.port)
        eventually((folder / "azureml-app" / "begun").exists, "the request")
        moved = hosting.deploy(hosting.changed(spec, answering("new"), port=other.port))
        assert [ask(moved.port) for _ in range(20)] == [(200, "new")] * 20
        (folder / "go").touch()
        assert going_on.result() == (200, "old")


def test_a_failed_move_to_another_port_leaves_the_old_one_open(hosting: Hosting) -> None:
    first = hosting.deploy(spec := hosting.spec(answering("here")))
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        moved = hosting.changed(spec, answering("there"), port=stranger.getsockname()[1])
        seen = hosting.deploy(moved)
    assert seen.trouble is not None
    assert (seen.trouble.step, seen.port, seen.revision) == ("port", first.port, 1)
    broken = "def init():\n    raise ValueError('broken')\ndef run(body): pass\n"
    free = hosting.deploy(hosting.spec()).port
    hosting.host.remove("id-service-2")
    seen = hosting.deploy(hosting.changed(moved, broken, port=free))
    assert (seen.failed_revision, seen.port) == (3, first.port)
    assert ask(first.port) == (200, "here")
    with pytest.raises(ConnectionRefusedError):
        ask(free)


def test_what_a_worker_was_asked_before_the_update_is_answered_by_it(hosting: Hosting) -> None:
    """A request that takes a while: the update does not wait for it, and it is not lost."""
    seen = hosting.deploy(spec := hosting.spec(taking_a_while("old")))
    begun = hosting.home / "services" / spec.id / "r1" / "azureml-app" / "begun"
    with under_load(seen.port) as load:
        eventually(begun.exists, "the first request")
        hosting.deploy(hosting.changed(spec, answering("new")))
        eventually(lambda: load.bodies[b'"new"'] and load.bodies[b'"old"'], "answers of both")
    assert set(load.statuses) == {200}
