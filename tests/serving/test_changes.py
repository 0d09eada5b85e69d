"""Changes that need no new workers: they count at once, and nothing that goes on beside them undoes them."""

import os
import signal
import socket

import pytest

from runyard.core.records.web_services import ObservedService, Scale, ServiceAuth, ServiceSpec, ServiceState
from tests.serving.front import raw_client
from tests.serving.hosting import Hosting, ask, eventually
from tests.serving.test_updates import answering

BROKEN = "def init():\n    raise ValueError('broken')\ndef run(body): pass\n"


def waiting_in_init(word: str) -> str:
    wait = "while not os.path.exists('../go'): time.sleep(0.01)"
    return f"import os, time\ndef init():\n    {wait}\ndef run(body): return {word!r}\n"


def let_go_on(hosting: Hosting, spec: ServiceSpec) -> ObservedService:
    """End the init() of the newest revision, and wait until that answers."""
    (hosting.home / "services" / spec.id / f"r{spec.revision}" / "go").touch()
    return hosting.until(spec, lambda seen: seen.revision == spec.revision)


def status(port: int, key: str, path: str = "/score") -> int:
    return raw_client.ask(port, path=path, body=b"{}", Authorization=f"Bearer {key}").status


def a_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        return int(opened.getsockname()[1])


@pytest.mark.parametrize("moves", [False, True])
def test_a_key_that_is_renewed_during_an_update_stays_renewed(hosting: Hosting, moves: bool) -> None:
    spec = hosting.spec(answering("old"), admission=ServiceAuth(("stolen", "second")))
    old_port = hosting.deploy(spec).port
    port = a_free_port() if moves else old_port
    update = hosting.changed(spec, waiting_in_init("new"), port=port)
    hosting.host.apply(update)
    hosting.until(spec, lambda seen: seen.step == "init")
    renewed = hosting.changed(update, admission=ServiceAuth(("fresh", "second")))
    hosting.host.apply(renewed)
    for open_port in {old_port, port}:
        assert [status(open_port, key) for key in ("stolen", "fresh")] == [401, 200]
    assert let_go_on(hosting, renewed).port == port
    assert [status(port, key) for key in ("stolen", "fresh", "second")] == [401, 200, 200]


def test_replicas_that_are_asked_for_during_a_deployment_come(hosting: Hosting) -> None:
    hosting.host.apply(spec := hosting.spec(waiting_in_init("there")))
    hosting.until(spec, lambda seen: seen.step == "init")
    hosting.host.apply(hosting.changed(spec, scale=Scale(least=3, most=3)))
    let_go_on(hosting, spec)
    assert hosting.until(spec, lambda seen: seen.replicas == 3).wanted_replicas == 3


def test_another_port_alone_moves_the_same_workers(hosting: Hosting) -> None:
    first = hosting.deploy(spec := hosting.spec(answering("here")))
    workers, port = hosting.workers(spec), a_free_port()
    hosting.host.apply(hosting.changed(spec, port=port))
    hosting.until(spec, lambda seen: seen.port == port)
    assert ask(port) == (200, "here")
    assert hosting.workers(spec) == workers
    with pytest.raises(ConnectionRefusedError):
        ask(first.port)


def test_a_port_that_somebody_has_is_told_and_taken_once_it_is_free(hosting: Hosting) -> None:
    first = hosting.deploy(spec := hosting.spec(answering("here")))
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        hosting.host.apply(hosting.changed(spec, port=port))
        seen = hosting.until(spec, lambda seen: seen.trouble is not None)
        assert seen.trouble is not None
        assert (seen.trouble.step, seen.port, seen.state) == ("port", first.port, ServiceState.HEALTHY)
        assert str(port) in seen.trouble.problem
        assert ask(first.port) == (200, "here")
    assert hosting.until(spec, lambda seen: seen.port == port).trouble is None
    assert ask(port) == (200, "here")


def test_after_a_failed_update_and_a_restart_all_is_where_the_old_revision_had_it(hosting: Hosting) -> None:
    spec = hosting.spec(answering("old"), scoring_path="/old-path")
    port = hosting.deploy(spec).port
    bad = hosting.changed(spec, BROKEN, scoring_path="/new-path", port=a_free_port())
    failed = hosting.deploy(bad)
    assert (failed.port, failed.failed_revision) == (port, 2)
    assert [status(port, "", path) for path in ("/old-path", "/new-path")] == [200, 404]
    os.kill(hosting.gateway(), signal.SIGKILL)
    hosting.host.revive()
    seen = hosting.until(spec, lambda seen: seen.state is ServiceState.HEALTHY and seen.version > failed.version)
    assert (seen.port, seen.revision) == (port, 1)
    assert [status(port, "", path) for path in ("/old-path", "/new-path")] == [200, 404]


def test_a_restart_during_an_update_leaves_the_port_to_the_update(hosting: Hosting) -> None:
    spec = hosting.spec(answering("old"))
    port = hosting.deploy(spec).port
    update = hosting.changed(spec, waiting_in_init("new"), port=a_free_port())
    hosting.host.apply(update)
    hosting.until(spec, lambda seen: seen.step == "init")
    os.kill(hosting.gateway(), signal.SIGKILL)
    hosting.host.revive()
    hosting.until(spec, lambda seen: seen.step == "init")
    eventually(lambda: ask(port) == (200, "old"), "the old workers")
    assert let_go_on(hosting, update).port == update.port
    assert ask(update.port) == (200, "new")
