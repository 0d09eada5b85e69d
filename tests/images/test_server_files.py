"""The Dockerfile and the compose file of examples/server, built and run on a real engine; runs come from outside."""

import json
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.environments.containers.engine import ContainerEngine
from runyard.node.task_folder import TaskFolder
from runyard.testing.base_images import FOR_SERVERS, debian_archive
from tests.faults.yard import ENDED, eventually
from tests.images.server_images import (
    BASE,
    MACHINE_DOCKERFILE,
    MACHINE_IMAGE,
    POSTGRES_DOCKERFILE,
    POSTGRES_IMAGE,
    REPOSITORY,
    SERVER,
    Shell,
    bring_wheels,
    page_blocks,
    served,
)
from tests.servers.certificates import make_certificate
from tests.wire_client import WireClient

pytestmark = pytest.mark.images
NAME = "runyardserver"
POINTS = 100
MAIN_PROCESS = "systemctl show --property MainPID runyard"
# What systemd needs: its own cgroup tree to write to, and folders of a boot.
FOR_SYSTEMD = (
    *("--env", "container=docker", "--cap-add", "SYS_ADMIN", "--cgroupns", "host"),
    *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
    *("--volume", "/sys/fs/cgroup:/sys/fs/cgroup:rw", "--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp"),
    *(MACHINE_IMAGE, "/lib/systemd/systemd"),
)
SCRIPT = """
import os, sys, time
from azureml.core import Run
run = Run.get_context()
for number in range(100):
    run.log("point", number)
print("begun", flush=True)
while sys.argv[1:] == ["wait"] and not os.path.exists("go"):
    time.sleep(0.1)
"""
# From outside: another machine's Python, with the SDK alone, the address, the token and the certificate.
SUBMIT = """
import sys
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
there = Environment("there")
there.python.user_managed_dependencies = True
there.python.interpreter_path = "/usr/bin/python3"
config = ScriptRunConfig("source", "train.py", arguments=sys.argv[1:], environment=there)
print(Experiment(Workspace.create(name="outside", exist_ok=True), "outside").submit(config).id)
"""


class Server:
    """A service in a container, as other machines see it."""

    def __init__(self, shell: Shell, port: int, container: str) -> None:
        self.shell, self.container = shell, container
        self.url, self._ca = f"https://127.0.0.1:{port}", shell.folder / "tls" / "authority.pem"
        eventually(self._answers, "the service in its container")
        self.token = shell("docker", "exec", container, "cat", "/var/lib/runyard/token")

    @property
    def client(self) -> WireClient:
        return WireClient(self.url, self.token, ca=self._ca)

    def again(self) -> "Server":
        return Server(self.shell, int(self.url.rpartition(":")[2]), self.container)

    def submit(self, *arguments: str) -> str:
        variables = {"RUNYARD_URL": self.url, "RUNYARD_TOKEN": self.token, "RUNYARD_CA": str(self._ca)}
        done = subprocess.run(
            [sys.executable, "-c", SUBMIT, *arguments],
            env={**self.shell.variables, **variables},
            cwd=self.shell.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-1]

    def end_of(self, run_id: str) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            record = self.client.get(f"/runs/{run_id}")
            return record if record["status"] in ENDED else None

        return eventually(ended, f"the end of {run_id}")

    def points(self, run_id: str) -> int:
        head = json.loads(self.client.read(f"/runs/{run_id}/metrics").partition(b"\n")[0])
        return sum(one["count"] for one in head["metrics"])

    def _answers(self) -> bool:
        try:
            return WireClient(self.url, "nobody", ca=self._ca).ask("GET", "/api/v1/health").status == 401
        except OSError:
            return False


@pytest.fixture(scope="module")
def shell(docker: ContainerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """With the images that both files start from, the certificate and the settings of `.env`."""
    folder = tmp_path_factory.mktemp("server")
    with debian_archive(FOR_SERVERS).open("rb") as archive:
        docker.images.import_archive(archive, BASE)
    certificate = make_certificate(folder / "tls")
    shutil.copy(certificate.chain, folder / "tls" / "service.crt")
    shutil.copy(certificate.key, folder / "tls" / "service.key")
    for name in ("service.crt", "service.key"):
        (folder / "tls" / name).chmod(0o444)  # the container's user is another one than ours
    (folder / "source").mkdir()
    (folder / "source" / "train.py").write_text(SCRIPT, encoding="utf-8")
    opened = Shell(folder, docker.address)
    opened.build(POSTGRES_IMAGE, POSTGRES_DOCKERFILE)
    build_runyard(opened)
    opened.build(MACHINE_IMAGE, MACHINE_DOCKERFILE)
    yield opened
    for image in (MACHINE_IMAGE, "runyard", POSTGRES_IMAGE, BASE):
        docker.images.remove(image)


def build_runyard(shell: Shell) -> None:
    """By the page's own command."""
    wheels, (build, _) = shell.folder / "wheels", lines_of(page_blocks("In a container")[0], 1)
    bring_wheels(wheels)
    with served(wheels) as links:
        settings = {"BASE": BASE, "PIP_FIND_LINKS": links, "PIP_NO_INDEX": "1"}
        arguments = [word for name, value in settings.items() for word in ("--build-arg", f"{name}={value}")]
        added = shlex.join(["--network", "host", *arguments])
        shell.follow(f"cd {REPOSITORY}; {build}", {"docker build": f"docker build {added}"})


def lines_of(block: str, first: int) -> tuple[str, str]:
    """The first lines of a block, and the rest."""
    lines = block.splitlines(keepends=True)
    return "".join(lines[:first]), "".join(lines[first:])


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def network(shell: Shell) -> Iterator[str]:
    """In which a container has ports of its own; the tests' engine has none by default."""
    shell("docker", "network", "create", NAME)
    yield NAME
    shell("docker", "rm", "--force", "--volumes", NAME)
    shell("docker", "volume", "rm", "--force", NAME)
    shell("docker", "network", "rm", NAME)


def test_the_compose_file_runs_and_comes_back_with_everything(shell: Shell) -> None:
    port = free_port()
    shell.variables |= {
        "COMPOSE_PROJECT_NAME": NAME,
        "POSTGRES_PASSWORD": "correct-horse",
        "POSTGRES_IMAGE": POSTGRES_IMAGE,
        "RUNYARD_BASE": BASE,
        "RUNYARD_PUBLIC_URL": f"https://127.0.0.1:{port}",
        "RUNYARD_PORT": str(port),
        "RUNYARD_TLS": f"{shell.folder}/tls",
    }
    in_folder = f"cd {SERVER}\n"
    start, rest = lines_of(page_blocks("In a container")[1], 1)
    look, end = lines_of(rest, 2)
    # Built already, by the page's other command; `--build` here would want the wheels again.
    no_build = {"--build": "--no-build"}
    try:
        shell.follow(in_folder + start, no_build)
        server = Server(shell, port, f"{NAME}_runyard_1")
        first = server.submit()
        assert server.end_of(first)["status"] == "Completed"
        assert "runyard" in shell.follow(in_folder + look, {})
        server = server.again()
        assert server.points(first) == POINTS
        shell.follow(in_folder + end, {})
        shell.follow(in_folder + start, no_build)
        server = server.again()
        assert server.points(first) == POINTS
        second = server.submit()
        assert server.end_of(second)["status"] == "Completed"
    finally:
        shell.follow(in_folder + "docker-compose down --volumes", {})


def test_a_run_that_the_end_of_its_container_cuts_off_is_told_truly(shell: Shell, network: str) -> None:
    port = free_port()
    _, commands = lines_of(page_blocks("In a container")[0], 1)
    start, look = lines_of(commands, 1)
    shell.follow(
        start,
        {
            "--publish 8443:8443": f"--network {network} --publish {port}:8443",
            "https://train.example:8443": f"https://127.0.0.1:{port}",
            "--name runyard": f"--name {NAME}",
            "--volume runyard-home:": f"--volume {NAME}:",
        },
    )
    server = Server(shell, port, NAME)
    run_id = server.submit("wait")
    eventually(lambda: server.points(run_id) == POINTS, "all that was logged")
    said = shell.follow(look, {"exec runyard": f"exec {NAME}", "logs runyard": f"logs {NAME} 2>&1"})
    assert said.startswith(server.token)
    assert "serves /var/lib/runyard at" in said
    shell("docker", "stop", NAME)
    shell("docker", "start", NAME)
    server = server.again()
    record = server.end_of(run_id)
    assert record["status"] == "Failed"
    assert "killed" in record["error"]["error"]["message"]
    assert server.points(run_id) == POINTS
    log = server.client.read(f"/runs/{run_id}/logs/azureml-logs/70_driver_log.txt")
    assert log == b"begun\n"


def test_a_restart_by_systemd_itself_ends_no_run(shell: Shell, network: str) -> None:
    """The unit of the page, installed by the page's commands, under a systemd that is the container's first process."""
    install, restart = page_blocks("As a unit of systemd")
    port = free_port()
    shell("docker", "run", "--detach", "--name", NAME, "--network", network, "--publish", f"{port}:8443", *FOR_SYSTEMD)
    eventually(lambda: "running" in in_container(shell, "systemctl is-system-running || true"), "systemd")
    in_container(shell, "mkdir -p /srv/examples")
    for place in (SERVER, shell.folder / "tls" / "service.crt", shell.folder / "tls" / "service.key"):
        shell("docker", "cp", str(place), f"{NAME}:/srv{'/examples' if place == SERVER else ''}")
    in_container(shell, f"cd /srv\n{install}")
    server = Server(shell, port, NAME)
    run_id = server.submit("wait")
    eventually(lambda: server.points(run_id) == POINTS, "all that was logged")
    before = in_container(shell, MAIN_PROCESS)
    journal = in_container(shell, restart)
    server = server.again()
    assert in_container(shell, MAIN_PROCESS) != before
    assert "runyard" in journal
    in_container(shell, f"touch {TaskFolder(Path('/var/lib/runyard'), f'{run_id}.1').work}/go")
    assert server.end_of(run_id)["status"] == "Completed"
    assert server.points(run_id) == POINTS


def in_container(shell: Shell, script: str) -> str:
    return shell("docker", "exec", NAME, "sh", "-euc", script)
