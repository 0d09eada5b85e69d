"""What is asked of an engine, and what is made of its words: no engine is needed."""

import base64
import json
import socket
import tarfile
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed, InvalidArgument
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import ContainerRequest
from runyard.environments.containers.build_context import base_images, build_context
from runyard.environments.containers.containers import ContainerSpec, creation_request
from runyard.environments.containers.engine import ContainerEngine, find_engine, usual_sockets
from runyard.environments.containers.failures import build_failed, cause_of
from runyard.environments.containers.images import checked_reference
from runyard.environments.containers.output import BoundedLog
from runyard.environments.containers.registries import RegistryCredentials, headers_for_builds, split_tag


@pytest.mark.parametrize(
    ("gpus", "wants", "requested"),
    [
        ((), False, None),
        ((), True, [{"Count": -1, "Capabilities": [["gpu"]]}]),
        (("0", "GPU-1b2c"), True, [{"DeviceIDs": ["0", "GPU-1b2c"], "Capabilities": [["gpu"]]}]),
    ],
)
def test_docker_is_asked_for_gpus_by_a_device_request(gpus: tuple[str, ...], wants: bool, requested: object) -> None:
    spec = ContainerSpec("image", ("true",), gpus=gpus, request=ContainerRequest(wants_gpus=wants))
    assert creation_request(spec)["HostConfig"].get("DeviceRequests") == requested


def test_podman_is_asked_for_gpus_by_device_names() -> None:
    spec = ContainerSpec("image", ("true",), gpus=("1",), request=ContainerRequest(devices=("/dev/fuse:/dev/other:r",)))
    assert creation_request(spec, "podman")["HostConfig"]["Devices"] == [
        {"PathOnHost": "/dev/fuse", "PathInContainer": "/dev/other", "CgroupPermissions": "r"},
        {"PathOnHost": "nvidia.com/gpu=1"},
    ]


def test_every_wish_reaches_the_request() -> None:
    wish = ContainerRequest(
        shm_bytes=1, memory_bytes=2, cpus=1.5, ipc="host", network="none", user="u", hostname="h", is_privileged=True,
        variables=(("A", "1"),), added_capabilities=("SYS_PTRACE",), dropped_capabilities=("CHOWN",),
        hosts=(("name", "10.0.0.1"),), security=("seccomp=unconfined",), sysctls=(("net.core.somaxconn", "9"),),
    )  # fmt: skip
    body = creation_request(ContainerSpec("image", ("true",), request=wish))
    host = body["HostConfig"]
    assert (body["Env"], body["User"], body["Hostname"]) == (["A=1"], "u", "h")
    assert (host["ShmSize"], host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (1, 2, 2, 1_500_000_000)
    assert (host["IpcMode"], host["NetworkMode"], host["Privileged"]) == ("host", "none", True)
    assert (host["CapAdd"], host["CapDrop"], host["ExtraHosts"]) == (["SYS_PTRACE"], ["CHOWN"], ["name:10.0.0.1"])
    assert (host["SecurityOpt"], host["Sysctls"]) == (["seccomp=unconfined"], {"net.core.somaxconn": "9"})


@pytest.mark.parametrize(
    ("reference", "name", "tag"),
    [
        ("debian", "debian", "latest"),
        ("microsoft/mmlspark:0.12", "microsoft/mmlspark", "0.12"),
        ("registry.example:5000/a/b", "registry.example:5000/a/b", "latest"),
        ("localhost/a@sha256:00ff", "localhost/a", "sha256:00ff"),
    ],
)
def test_a_reference_has_a_name_and_a_tag(reference: str, name: str, tag: str) -> None:
    assert split_tag(reference) == (name, tag)


@pytest.mark.parametrize("reference", ["", "../json", "a b", "a\n", "/etc", "a/../b", "a?force=1", "-x", "a" * 600])
def test_a_name_that_is_none_never_reaches_the_engine(reference: str) -> None:
    with pytest.raises(InvalidArgument, match="no name of a container image"):
        checked_reference(reference)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ('Get "https://r.example/v2/": x509: certificate signed by unknown authority', FailureCause.CERTIFICATE),
        ('Get "https://r.example/v2/": http: server gave HTTP response to HTTPS client', FailureCause.CERTIFICATE),
        ("no matching manifest for linux/amd64 in the manifest list entries", FailureCause.ARCHITECTURE),
        ("toomanyrequests: You have reached your pull rate limit.", FailureCause.REGISTRY_FAILED),
        (
            "pull access denied for a/b, repository does not exist or may require 'docker login'",
            FailureCause.IMAGE_NOT_FOUND,
        ),
        ("write /var/lib/x: no space left on device", FailureCause.DISK_FULL),
        ("something that nobody has ever seen", FailureCause.UNKNOWN),
    ],
)
def test_the_words_of_registries_that_no_test_can_be(said: str, cause: FailureCause) -> None:
    assert cause_of(said, FailureCause.UNKNOWN) == cause


def test_credentials_go_by_address_and_show_no_password() -> None:
    secret = RegistryCredentials("me", "s3cret", "https://registry.example/")
    assert "s3cret" not in repr(secret)
    assert json.loads(base64.urlsafe_b64decode(secret.header()))["serveraddress"] == "registry.example"
    packed = headers_for_builds({"docker.io": secret, "https://registry.example": secret})["X-Registry-Config"]
    assert set(json.loads(base64.urlsafe_b64decode(packed))) == {"https://index.docker.io/v1/", "registry.example"}


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "", "nul\0"])
def test_a_context_holds_no_name_outside_itself(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="build context"):
        build_context("FROM scratch", [(name, tmp_path / "file", 0o644)])


def test_a_dockerfile_of_the_context_is_not_the_one_that_is_built(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("FROM other")
    context = build_context("FROM mine", [("Dockerfile", tmp_path / "file", 0o644)])
    with tarfile.open(fileobj=context.archive) as tar:
        chosen, other = tar.extractfile(context.dockerfile), tar.extractfile("Dockerfile")
        assert chosen is not None
        assert other is not None
        assert (chosen.read(), other.read()) == (b"FROM mine", b"FROM other")


def test_the_images_a_dockerfile_starts_from() -> None:
    text = (
        "ARG TAG=1\nFROM a:$TAG AS first\nfrom --platform=linux/amd64 b@sha256:0 as Second\nFROM first\nFROM scratch\n"
    )
    assert base_images(text) == ("a:1", "b@sha256:0")


def test_a_log_keeps_its_beginning_and_its_end() -> None:
    said: list[str] = []
    lines = BoundedLog(said.append, limit=30)
    for number in range(1000):
        lines.take(f"\x1b[91mline {number}\r\n".encode())
    lines.close()
    assert said[:4] == ["line 0", "line 1", "line 2", "line 3"]
    assert said[-1] == "line 999"
    assert len(said) < 220


def test_an_engine_that_was_chosen_must_answer(tmp_path: Path) -> None:
    variables = {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    with pytest.raises(EnvironmentFailed, match="DOCKER_HOST is unix") as failed:
        find_engine(variables)
    assert failed.value.facts["cause"] == FailureCause.NO_ENGINE


@pytest.mark.parametrize("address", ["ssh://me@host", "/var/run/docker.sock", "tcp://", "unix://", "tcp://h:port", "x"])
def test_an_address_that_cannot_be_an_engine_is_refused(address: str) -> None:
    with pytest.raises(InvalidArgument, match="DOCKER_HOST is unix"):
        ContainerEngine(address)
    with pytest.raises(EnvironmentFailed, match="no container engine answers"):
        find_engine({"DOCKER_HOST": address})


def test_without_an_engine_the_error_names_the_ways_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = tmp_path / "docker.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(dead))
    listener.close()
    monkeypatch.setattr(
        "runyard.environments.containers.engine.usual_sockets", lambda _: iter((tmp_path / "none.sock", dead))
    )
    with pytest.raises(EnvironmentFailed, match=f"{dead} does not answer") as failed:
        find_engine({})
    assert failed.value.facts["cause"] == FailureCause.NO_ENGINE
    for way in ("docker", "podman", "DOCKER_HOST", "without_engine=virtual-environment"):
        assert way in failed.value.hint


def test_the_usual_sockets_are_of_docker_before_podman() -> None:
    names = [path.name for path in usual_sockets({"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/me"})]
    assert names == ["docker.sock"] * 3 + ["podman.sock"] * 2


def test_what_an_engine_says_shows_no_password() -> None:
    words = "Step 2/2 : RUN pip install -i https://TOKEN@index.example/simple demo"
    said: list[str] = []
    lines = BoundedLog(said.append)
    lines.write(f"{words}\n")
    assert said == [words.replace("TOKEN", "****")]
    failed = build_failed(f"{words} returned a non-zero code: 1")
    assert "TOKEN" not in f"{failed} {failed.facts}"


@pytest.mark.parametrize(
    "said",
    [
        "the --mount option requires BuildKit. Refer to https://docs.docker.com/go/buildkit/",
        "Dockerfile parse error line 2: unknown flag: chmod",
        "Dockerfile parse error line 4: unknown instruction: EOF",
    ],
)
def test_a_step_for_buildkit_is_told_what_to_write_instead(said: str) -> None:
    failed = build_failed(said)
    assert "without BuildKit" in failed.hint
    assert failed.facts["cause"] == FailureCause.DOCKERFILE_FAILED
