"""A home on a disk that fills up: endpoints go on, deployments say what is wrong, and all is well with room again."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.errors import StorageFull
from runyard.core.records.web_services import ServiceState
from runyard.testing.small_disk import mounted
from tests.conftest import end_home
from tests.serving.hosting import Hosting, ask, eventually
from tests.serving.test_updates import answering

pytestmark = pytest.mark.slow


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Hosting]:
    with mounted(tmp_path / "small", 24) as disk:
        home = disk / "home"
        home.mkdir(mode=0o700)
        hosting = Hosting(home)
        yield hosting
        (home / "filler").unlink(missing_ok=True)
        hosting.close()
        end_home(home)


def fill(hosting: Hosting) -> None:
    with suppress(OSError), (hosting.home / "filler").open("wb", buffering=0) as sink:
        while True:
            sink.write(bytes(1 << 12))


def test_what_answers_goes_on_answering(small: Hosting) -> None:
    seen = small.deploy(small.spec(answering("here")))
    fill(small)
    assert ask(seen.port) == (200, "here")


def test_a_gateway_killed_on_a_full_disk_comes_back(small: Hosting) -> None:
    seen = small.deploy(spec := small.spec(answering("here")))
    fill(small)
    os.kill(small.gateway(), signal.SIGKILL)
    small.host.revive()
    assert small.until(spec, lambda now: now.state is ServiceState.HEALTHY).port == seen.port
    assert ask(seen.port) == (200, "here")


def test_a_spec_that_cannot_be_written_is_refused(small: Hosting) -> None:
    spec = small.spec(answering("here"))
    fill(small)
    with pytest.raises(StorageFull):
        small.host.apply(spec)


def test_files_that_do_not_fit_are_a_failed_step_and_leave_no_part_behind(small: Hosting) -> None:
    spec = small.spec(answering("here"))
    port = small.deploy(spec).port
    large = replace(small.changed(spec, answering("there")), code=(*spec.code, small.file("large", "x" * (9 << 20))))
    (small.home / "source").unlink()
    fill_up_to = small.home / "filler"
    fill_up_to.write_bytes(bytes(7 << 20))
    seen = small.deploy(large)
    assert (seen.state, seen.revision, seen.failed_revision) == (ServiceState.HEALTHY, 1, 2)
    assert seen.trouble is not None
    assert (seen.trouble.step, "full" in seen.trouble.problem) == ("files", True)
    assert sorted(path.name for path in (small.home / "services" / spec.id).glob("*r[0-9]*")) == ["r1"]
    fill_up_to.unlink()
    again = small.deploy(replace(large, revision=3, generation=3))
    assert (again.revision, ask(port)[0]) == (3, 200)


def test_a_state_that_could_not_be_written_is_written_once_there_is_room(small: Hosting) -> None:
    seen = small.deploy(spec := small.spec(answering("here")))
    fill(small)
    os.kill(small.workers(spec)[0], signal.SIGKILL)
    told = small.until(spec, lambda now: now.version > seen.version and now.state is ServiceState.HEALTHY)
    assert small.host.observe(spec.id) == seen, "there is no room for what has changed since"
    (small.home / "filler").unlink()
    eventually(lambda: small.host.observe(spec.id) == told, "the new state")
