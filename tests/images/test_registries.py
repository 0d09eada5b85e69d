"""Images of registries that want a password, have them not, fail or are silent."""

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause, PackageSettings
from runyard.core.records.launch_plan import EnvironmentSpec, ImageSpec
from runyard.environments.builder import discard_environment, prune_environments
from runyard.environments.containers.containers import ContainerSpec
from runyard.environments.images.cleanup import PulledImages
from runyard.environments.images.names import ImageNames
from runyard.environments.lockfile import LockFile
from runyard.environments.package_sources import BuildSettings
from runyard.testing.container_engine import Registry, running_registry
from tests.environments.wheelhouse import add_wheel
from tests.images.building import ImageHome, of_dockerfile, of_image
from tests.images.conftest import engine_folder

pytestmark = pytest.mark.images
INDEX_PASSWORD = "s3cret-of-the-index"


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Failing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(500)

    def log_message(self, *_: object) -> None: ...


class Closing(Failing):
    def do_GET(self) -> None:
        """Nothing is answered."""


def failure_of(home: ImageHome, spec: EnvironmentSpec) -> EnvironmentFailed:
    with pytest.raises(EnvironmentFailed) as failed:
        home.ensure(spec)
    assert home.environments.find(spec) is None
    assert failed.value.hint
    return failed.value


def private(registry: Registry, name: str = "team/debian:12") -> EnvironmentSpec:
    image = ImageSpec(base=f"{registry.address}/{name}", registry=registry.address)
    return EnvironmentSpec(python="3.11", requirements=("demo==1.0",), image=image)


@pytest.fixture(autouse=True)
def demo(image_home: ImageHome, wheels: Path) -> None:
    add_wheel(wheels, "demo", "1.0")


@pytest.fixture
def known(image_home: ImageHome, registry: Registry) -> ImageHome:
    """A home whose workspace has the password."""
    image_home.provisions = BuildSettings(registries={registry.address: registry.credentials})
    return image_home


def test_a_private_image_is_pulled_with_its_password_which_stays_nowhere(known: ImageHome, registry: Registry) -> None:
    built = known.ensure(private(registry))
    assert known.python(built, "import demo; print(demo.version)") == ["1.0"]
    assert known.has_said(f"as {registry.username}")
    _is_nowhere(registry.password, known, built.image)


def test_what_one_pulled_with_a_password_is_not_another_s(known: ImageHome, registry: Registry) -> None:
    known.ensure(private(registry))
    nobody = replace(known, provisions=BuildSettings())
    other = replace(private(registry), requirements=())
    assert failure_of(nobody, other).facts["cause"] == FailureCause.WRONG_CREDENTIALS
    wrong = replace(registry.credentials, password="guessed")
    guesser = replace(known, provisions=BuildSettings(registries={registry.address: wrong}))
    assert failure_of(guesser, other).facts["cause"] == FailureCause.WRONG_CREDENTIALS


def test_what_was_built_on_a_private_image_is_found_with_its_login_alone(known: ImageHome, registry: Registry) -> None:
    spec = private(registry)
    assert spec.image
    with_login = replace(spec, image=replace(spec.image, login="of-the-workspace"))
    built = known.ensure(with_login)
    assert known.environments.find(with_login) == built
    assert failure_of(replace(known, provisions=BuildSettings()), spec).facts["cause"] == FailureCause.WRONG_CREDENTIALS
    assert known.environments.find(with_login) == built


def test_a_dockerfile_s_private_base_is_not_another_s(known: ImageHome, registry: Registry) -> None:
    base = f"{registry.address}/team/debian:12"
    known.ensure(of_dockerfile(f"FROM {base}\nRUN true\n", "demo"))
    assert known.engine.images.find(base) is None
    nobody = replace(known, provisions=BuildSettings())
    assert failure_of(nobody, private(registry)).facts["cause"] == FailureCause.WRONG_CREDENTIALS
    assert (
        failure_of(nobody, of_dockerfile(f"FROM {base}\nRUN echo\n")).facts["cause"] == FailureCause.WRONG_CREDENTIALS
    )


def test_images_of_ours_are_nobody_s_base_by_name_or_id(known: ImageHome, registry: Registry) -> None:
    built = known.ensure(private(registry))
    details = known.environments.image_of(built)
    assert details
    for name in (*details.names, built.image, built.image.removeprefix("sha256:")[:12]):
        failure = failure_of(known, of_image(name, "demo"))
        assert failure.facts["cause"] == FailureCause.IMAGE_NOT_FOUND, name
        for text in (f"FROM {name}\n", f"FROM scratch\nCOPY --from={name} /etc /etc\n"):
            assert failure_of(known, of_dockerfile(text)).facts["cause"] == FailureCause.IMAGE_NOT_FOUND, text


def test_a_builder_killed_while_it_pulls_leaves_no_private_name(known: ImageHome, registry: Registry) -> None:
    base = f"{registry.address}/team/debian:12"
    with PulledImages(known.engine, ImageNames(known.root)).record_pull({base: True}, "0" * 24):
        left = {file: file.read_bytes() for file in (known.root / "locks" / "brought").iterdir()}
    # As after kill -9: the name is there and written down, and nobody takes it away.
    known.engine.images.pull(base, lambda _: None, credentials=registry.credentials)
    for file, content in left.items():
        file.write_bytes(content)
    assert failure_of(replace(known, provisions=BuildSettings()), private(registry))
    assert known.engine.images.find(base) is None


def test_a_rerun_has_the_base_of_its_lock_though_the_tag_has_moved(
    known: ImageHome, registry: Registry, debian: str, debian_python: str
) -> None:
    moving = f"{registry.address}/team/moving:1"
    _push(known, registry, debian, moving)
    spec = replace(private(registry, "team/moving:1"))
    first = known.ensure(spec)
    _push(known, registry, debian_python, moving)
    prune_environments(known.root)
    again = known.ensure(replace(spec, locked=first.lock))
    assert LockFile.parse(again.lock).base == LockFile.parse(first.lock).base
    assert known.has_said("is another now than the locked one")
    other = known.ensure(spec)
    assert LockFile.parse(other.lock).base != LockFile.parse(first.lock).base
    gone = first.lock.replace(LockFile.parse(first.lock).base, "sha256:" + "0" * 64)
    failure = failure_of(known, replace(spec, locked=gone))
    assert failure.facts["cause"] == FailureCause.IMAGE_NOT_FOUND
    assert "as it was locked" in failure.hint


def test_a_build_that_is_forced_takes_the_tag_where_it_is_now(
    known: ImageHome, registry: Registry, debian: str, debian_python: str
) -> None:
    moving = f"{registry.address}/team/moving:2"
    _push(known, registry, debian, moving)
    spec = private(registry, "team/moving:2")
    first = known.ensure(spec)
    _push(known, registry, debian_python, moving)
    assert discard_environment(known.root, first.key)
    assert LockFile.parse(known.ensure(spec).lock).base != LockFile.parse(first.lock).base


def test_a_base_that_we_brought_goes_when_nobody_needs_it(image_home: ImageHome, debian: str) -> None:
    with running_registry(engine_folder(), is_private=False) as registry:
        base = f"{registry.address}/team/debian:12"
        _push(image_home, registry, debian, base)
        built = image_home.ensure(of_image(base, "demo==1.0"))
        details = image_home.environments.image_of(built)
    assert details
    assert details.brought == (base,)
    found = image_home.engine.images.find(base)
    assert found
    assert details.bytes > found.size
    prune_environments(image_home.root)
    assert image_home.engine.images.find(base) is None


def test_an_image_that_the_registry_has_not_is_said_to_be_missing(known: ImageHome, registry: Registry) -> None:
    failure = failure_of(known, private(registry, "team/none:1"))
    assert failure.facts["cause"] == FailureCause.IMAGE_NOT_FOUND
    assert "team/none:1" in failure.problem


@pytest.mark.parametrize(
    ("handler", "causes"), [(Failing, [FailureCause.REGISTRY_FAILED]), (Closing, [FailureCause.NETWORK])]
)
def test_a_registry_that_fails_or_says_nothing_is_named(
    image_home: ImageHome, handler: Callable[..., BaseHTTPRequestHandler], causes: list[FailureCause]
) -> None:
    with serving(handler) as address:
        failure = failure_of(image_home, of_image(f"{address}/team/image:1"))
    assert failure.facts["cause"] in causes
    assert address in failure.problem


def test_a_registry_that_is_not_there_is_the_network(image_home: ImageHome) -> None:
    with serving(Closing) as address:
        pass
    assert failure_of(image_home, of_image(f"{address}/team/image:1")).facts["cause"] == FailureCause.NETWORK


def test_an_offline_workspace_asks_no_registry(image_home: ImageHome, debian: str) -> None:
    image_home.provisions = BuildSettings(PackageSettings(offline=True))
    failure = failure_of(image_home, of_image("127.0.0.1:1/team/image:1"))
    assert failure.facts["cause"] == FailureCause.OFFLINE
    built = image_home.ensure(of_image(debian, "demo==1.0"))
    assert image_home.python(built, "import demo; print(demo.version)") == ["1.0"]


@pytest.mark.parametrize("name", ["debian --privileged", "../etc/passwd", "a\nFROM b", "$(reboot)", "UPPER/Case;rm"])
def test_a_name_that_is_none_goes_no_further(image_home: ImageHome, name: str) -> None:
    with pytest.raises(Exception, match=r"is no name of a container image|invalid reference|must be lowercase"):
        image_home.ensure(of_image(name))


def test_an_index_s_password_is_used_in_the_image_and_stays_nowhere(
    image_home: ImageHome, debian_python: str, tmp_path: Path
) -> None:
    add_wheel(tmp_path / "index" / "hidden", "hidden", "1.0")
    with serving(lambda *given: _Index(*given, directory=str(tmp_path / "index"))) as address:
        index = f"http://ann:{INDEX_PASSWORD}@{address}"
        image_home.provisions = BuildSettings(PackageSettings(index_url=index))
        image_home.variables = {k: v for k, v in image_home.variables.items() if not k.startswith("PIP_")}
        built = image_home.ensure(of_image(debian_python, "hidden"))
    assert image_home.python(built, "import hidden; print(hidden.version)") == ["1.0"]
    _is_nowhere(INDEX_PASSWORD, image_home, built.image)


def _push(home: ImageHome, registry: Registry, image: str, name: str) -> None:
    home.engine.images.tag(image, name)
    home.engine.images.push(name, lambda _: None, credentials=registry.credentials)
    home.engine.images.remove(name)


class _Index(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        wanted = "Basic " + base64.b64encode(f"ann:{INDEX_PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") == wanted:
            super().do_GET()
        else:
            self.send_error(401)

    def log_message(self, *_: object) -> None: ...


def _is_nowhere(secret: str, home: ImageHome, image: str) -> None:
    told = [str(home.engine.images.find(image)), *home.engine.images.history(image), *home.said]
    assert not [line for line in told if secret in line]
    files = [path for path in home.root.parent.rglob("*") if path.is_file()]
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    found: list[str] = []
    search = ("grep", "-rlF", secret, "/azureml-envs", "/etc", "/root", "/tmp", "/var")
    home.engine.containers.run(ContainerSpec(image, search), found.append)
    assert found == []
