"""What the two engines must do alike, through the API that they share."""

import io
import signal
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import ContainerRequest, VolumeRequest
from runyard.environments.containers.containers import ContainerSpec, Mount
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.containers.transport import tar_writer
from runyard.environments.images.built_images import local_engine
from runyard.testing.base_images import PLAIN
from runyard.testing.container_engine import kill_engine
from tests.faults.yard import eventually
from tests.images.conftest import imported

pytestmark = pytest.mark.images
SLEEP = ("sleep", "600")


def lines_of(engine: ContainerEngine, spec: ContainerSpec) -> list[str]:
    lines: list[str] = []
    done = engine.containers.run(spec, lines.append)
    assert done.exit.status == 0, lines
    return lines


def shell(image: str, script: str, **more: object) -> ContainerSpec:
    return ContainerSpec(image, ("sh", "-c", script), **more)


@pytest.fixture
def sleeping(engine: ContainerEngine, base: str) -> Iterator[str]:
    container = engine.containers.create(ContainerSpec(base, SLEEP, labels={"tests.sleeping": "yes"}))
    engine.containers.start(container)
    yield container
    engine.containers.remove(container)


def test_a_container_says_both_streams_and_how_it_ended_and_is_gone(engine: ContainerEngine, base: str) -> None:
    lines: list[str] = []
    done = engine.containers.run(shell(base, "echo out; echo err >&2; exit 3"), lines.append)
    assert done.exit.status == 3
    assert sorted(lines) == ["err", "out"]
    assert engine.containers.state(done.id) is None


def test_a_container_has_its_variables_folder_user_and_mounts(
    engine: ContainerEngine, base: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "given").write_text("from the machine\n")
    spec = shell(
        base,
        'echo "$WISH"; pwd; id -u; cat /in/given; touch /in/more 2>/dev/null || echo read-only; echo back > /out/made',
        variables={"WISH": "a=b $c 'd'"},
        working_folder="/var",
        user="1234:1234",
        mounts=(Mount(str(tmp_path), "/in", is_read_only=True),),
        request=ContainerRequest(volumes=(VolumeRequest(str(tmp_path / "out"), "/out"),)),
    )
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o777)
    assert lines_of(engine, spec) == ["a=b $c 'd'", "/var", "1234", "from the machine", "read-only"]
    assert (tmp_path / "out" / "made").read_text() == "back\n"
    assert (tmp_path / "out" / "made").stat().st_uid == 1234


def test_a_mount_of_a_folder_that_is_not_there_is_refused(engine: ContainerEngine, base: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(EnvironmentFailed, match=str(missing)):
        engine.containers.run(ContainerSpec(base, ("true",), mounts=(Mount(str(missing), "/in"),)), print)
    assert not missing.exists()


def test_limits_hold(engine: ContainerEngine, base: str) -> None:
    wish = ContainerRequest(shm_bytes=3 << 20, cpus=0.5, memory_bytes=64 << 20, ulimits=(("nofile", 100, 200),))
    lines = lines_of(
        engine, shell(base, "ulimit -Sn; ulimit -Hn; df -k --output=size /dev/shm | tail -1", request=wish)
    )
    assert [line.strip() for line in lines] == ["100", "200", "3072"]


def test_a_container_beyond_its_memory_is_killed(engine: ContainerEngine, base: str) -> None:
    grow = "words=$(head -c 200000000 /dev/zero | tr '\\0' x)"
    hungry = shell(base, grow, request=ContainerRequest(memory_bytes=32 << 20))
    exit_ = engine.containers.run(hungry, print).exit
    assert exit_.status == 128 + signal.SIGKILL
    if engine.facts().name == "docker":  # podman 4.3 does not tell on the first version of control groups
        assert exit_.is_out_of_memory


@pytest.mark.parametrize(
    ("command", "user", "said"),
    [
        (("no-such-program",), "", "no-such-program"),
        (("/etc/passwd",), "", "permission denied"),
        (("true",), "nobody-knows-me", "unable to find user nobody-knows-me"),
    ],
)
def test_a_start_that_fails_tells_why_and_leaves_no_container(
    engine: ContainerEngine, base: str, command: tuple[str, ...], user: str, said: str
) -> None:
    labels = {"tests.failing": said}
    with pytest.raises(EnvironmentFailed, match=said) as failed:
        engine.containers.run(ContainerSpec(base, command, user=user, labels=labels), print)
    assert failed.value.facts["cause"] == FailureCause.ENGINE_FAILED
    assert engine.containers.with_labels(labels) == ()


def test_a_killed_container_tells_the_signal(engine: ContainerEngine, sleeping: str) -> None:
    assert engine.containers.kill(sleeping, signal.SIGKILL)
    assert engine.containers.wait(sleeping).status == 128 + signal.SIGKILL
    assert not engine.containers.kill(sleeping)


def test_a_container_is_found_by_its_labels_and_removed_once(engine: ContainerEngine, sleeping: str) -> None:
    (found,) = engine.containers.with_labels({"tests.sleeping": "yes"})
    assert (found.id, found.status) == (sleeping, "running")
    assert engine.containers.with_labels({"tests.sleeping": "no"}) == ()
    state = engine.containers.state(sleeping)
    assert state is not None
    assert state.is_running
    # An engine calls a container running before its process has become the program.
    command = Path("/proc", str(state.pid), "cmdline")
    eventually(lambda: b"sleep\x00600" in command.read_bytes(), "the program of the container")
    engine.containers.remove(sleeping)
    engine.containers.remove(sleeping)
    assert engine.containers.state(sleeping) is None


def test_files_go_into_a_container(engine: ContainerEngine, sleeping: str) -> None:
    sent = io.BytesIO()
    with tar_writer(sent) as tar:
        entry = tarfile.TarInfo("folder/file")
        entry.size = 5
        tar.addfile(entry, io.BytesIO(b"words"))
    engine.containers.put_archive(sleeping, "/opt", sent)
    state = engine.containers.state(sleeping)
    assert state is not None
    assert Path("/proc", str(state.pid), "root/opt/folder/file").read_text() == "words"


def test_a_commit_is_a_layer_with_the_command_of_the_image_below(engine: ContainerEngine, base: str) -> None:
    below = engine.images.find(base)
    done = engine.containers.run(shell(base, "echo made > /made"), print, keeps=True)
    labels = {"tests.layer": 'a "word"'}
    try:
        made = engine.images.commit(done.id, "tests/layer:1", labels=labels, changes=("ENV ADDED=yes",))
    finally:
        engine.containers.remove(done.id)
    assert below is not None
    assert made.layers[:-1] == below.layers
    assert (made.entrypoint, made.command) == (below.entrypoint, below.command)
    assert made.variables["ADDED"] == "yes"
    assert [entry.id for entry in engine.images.with_labels(labels)] == [made.id]
    assert lines_of(engine, shell("tests/layer:1", "cat /made")) == ["made"]
    assert engine.images.remove(made.id, is_forced=True)
    assert engine.images.find(made.id) is None
    assert not engine.images.remove("tests/layer:1")


def test_the_entrypoint_of_an_image_is_not_in_the_way(engine: ContainerEngine, base: str) -> None:
    done = engine.containers.run(shell(base, "true"), print, keeps=True)
    made = engine.images.commit(done.id, "tests/entry:1", changes=('ENTRYPOINT ["/bin/false"]', 'CMD ["--never"]'))
    engine.containers.remove(done.id)
    assert made.entrypoint == ("/bin/false",)
    assert lines_of(engine, ContainerSpec(made.id, ("echo", "mine"))) == ["mine"]
    engine.images.remove(made.id, is_forced=True)


def test_an_image_that_a_container_runs_from_stays(engine: ContainerEngine, base: str, sleeping: str) -> None:
    with pytest.raises(EnvironmentFailed):
        engine.images.remove(base)
    assert engine.images.find(base) is not None


def test_an_engine_that_dies_fails_whoever_waits(own_docker: Callable[[], ContainerEngine]) -> None:
    engine = own_docker()
    container = engine.containers.create(ContainerSpec(imported(engine, PLAIN), SLEEP))
    engine.containers.start(container)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(engine.containers.wait, container)
        kill_engine(engine)
        with pytest.raises(EnvironmentFailed, match=engine.address) as failed:
            waiting.result(30)
    assert failed.value.facts["cause"] == FailureCause.ENGINE_FAILED


def test_the_submitters_engine_is_asked_first_and_given_up_where_it_is_of_another_machine(
    docker: ContainerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path(docker.address.removeprefix("unix://"))
    absent = {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr("runyard.environments.containers.engine.usual_sockets", lambda _: iter(()))
    assert local_engine({"DOCKER_HOST": docker.address}).address == docker.address
    with pytest.raises(EnvironmentFailed, match=r"DOCKER_HOST is unix://.*none\.sock"):
        local_engine(absent)
    monkeypatch.setattr("runyard.environments.containers.engine.usual_sockets", lambda _: iter((own,)))
    assert local_engine(absent).address == docker.address
    monkeypatch.setenv("DOCKER_HOST", docker.address)
    monkeypatch.setattr("runyard.environments.containers.engine.usual_sockets", lambda _: iter(()))
    assert local_engine(absent).address == docker.address
