"""Container engines and a registry for tests, started from the programs of the system's packages.

Each lives in one folder and ends with the process that started it. It leaves no mount, shim or container behind.
Starting them needs root.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runyard.core.errors import EnvironmentFailed
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.containers.registries import RegistryCredentials
from runyard.testing import engine_guard

Answers = Callable[[], None]
START_SECONDS = 60.0
STOP_SECONDS = 300.0  # the guard removes gigabytes of layers; a busy disk takes minutes
PROGRAMS = ("dockerd", "containerd", "runc", "podman", "docker-registry", "debootstrap")
_PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A machine without CAP_SYS_RESOURCE refuses limits above its own, which podman asks for by default.
_RUNTIME = """#!/bin/sh
settings=
for word; do
  [ "$previous" = --bundle ] && settings=$word/config.json
  [ "$previous" = --process ] && settings=$word
  previous=$word
done
[ -z "$settings" ] || {python} -I -S {folder}/clamp_limits.py "$settings" || exit 1
exec runc "$@"
"""
_CLAMP = """
import json, resource, sys
with open(sys.argv[1]) as file:
    config = json.load(file)
for limit in config.get("process", config).get("rlimits") or ():
    most = resource.getrlimit(getattr(resource, limit["type"]))[1]
    if most != resource.RLIM_INFINITY:
        limit["hard"], limit["soft"] = min(limit["hard"], most), min(limit["soft"], most)
with open(sys.argv[1], "w") as file:
    json.dump(config, file)
"""
USERNAME, PASSWORD = "reader", "correct-horse-7f3a"
_HTPASSWD = f"{USERNAME}:$2b$04$0WACBUVSy04/wXMY3XKvlexs.floMLqa41efOUaEG7z2/qm/QJ4.K\n"


@dataclass(frozen=True)
class Registry:
    address: str
    username: str = ""
    password: str = ""

    @property
    def credentials(self) -> RegistryCredentials:
        return RegistryCredentials(self.username, self.password, self.address)


def missing_programs() -> tuple[str, ...]:
    return tuple(name for name in PROGRAMS if shutil.which(name, path=_PATHS) is None)


@contextmanager
def running_docker(
    folder: Path, *, mirror: Registry | None = None, images: Path | None = None
) -> Iterator[ContainerEngine]:
    """Run a dockerd. `mirror` replaces Docker's registry; `images` is the folder of its images, by default below
    `folder`."""
    command = [
        "dockerd",
        *("--host", f"unix://{folder}/docker.sock"),
        *(
            "--data-root",
            str(images or folder / "images"),
            "--exec-root",
            f"{folder}/run",
            "--pidfile",
            f"{folder}/pid",
        ),
        *("--iptables=false", "--ip6tables=false", "--bridge=none"),
        *("--cgroup-parent", f"/{folder.name}"),
        *("--add-runtime", f"clamping={_clamping_runtime(folder)}", "--default-runtime", "clamping"),
        *(("--registry-mirror", f"http://{mirror.address}") if mirror else ()),
    ]
    engine = ContainerEngine(f"unix://{folder}/docker.sock")
    with _guarded(folder, command, engine.answers):
        yield engine


def kill_engine(docker: ContainerEngine) -> None:
    """Kill the server with SIGKILL; containers go on."""
    pid = Path(docker.address.removeprefix("unix://")).with_name("pid").read_text()
    os.kill(int(pid), signal.SIGKILL)


@contextmanager
def running_podman(folder: Path) -> Iterator[ContainerEngine]:
    """Run a podman that serves the Docker API, on the host's network. Registries on loopback need no certificate."""
    (folder / "containers.conf").write_text('[containers]\nnetns = "host"\n[engine]\ncgroup_manager = "cgroupfs"\n')
    (folder / "registries.conf").write_text('[[registry]]\nlocation = "127.0.0.1"\ninsecure = true\n')
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n'
    )
    command = [
        *("podman", "--runtime", _clamping_runtime(folder), "--tmpdir", f"{folder}/tmp"),
        *("--root", f"{folder}/images", "--runroot", f"{folder}/run"),
        *("system", "service", "--time=0", f"unix://{folder}/podman.sock"),
    ]
    engine = ContainerEngine(f"unix://{folder}/podman.sock")
    settings = {
        "CONTAINERS_CONF": f"{folder}/containers.conf",
        "CONTAINERS_REGISTRIES_CONF": f"{folder}/registries.conf",
        "CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf",
    }
    with _guarded(folder, command, engine.answers, settings):
        yield engine


@contextmanager
def running_registry(folder: Path, *, is_private: bool = True) -> Iterator[Registry]:
    """Run a registry on loopback; a private one asks for its user name and password."""
    port = _free_port()
    (folder / "htpasswd").write_text(_HTPASSWD)
    auth = f"auth:\n  htpasswd:\n    realm: tests\n    path: {folder}/htpasswd\n" if is_private else ""
    (folder / "config.yml").write_text(
        "version: 0.1\nlog:\n  level: error\n"
        f"storage:\n  filesystem:\n    rootdirectory: {folder}/store\n"
        f"http:\n  addr: 127.0.0.1:{port}\n{auth}"
    )

    def answers() -> None:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()

    with _guarded(folder, ["docker-registry", "serve", f"{folder}/config.yml"], answers):
        credentials = (USERNAME, PASSWORD) if is_private else ("", "")
        yield Registry(f"127.0.0.1:{port}", *credentials)


@contextmanager
def _guarded(
    folder: Path, command: Sequence[str], answers: Answers, settings: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a server until the block ends, or this process does."""
    temporary = folder / "temporary"
    temporary.mkdir()
    own = {"HOME": str(folder), "TMPDIR": str(temporary), "PATH": _PATHS}
    with (folder / "server.log").open("ab") as log:
        guard = subprocess.Popen(
            [sys.executable, "-S", engine_guard.__file__, str(folder), *command],
            env={**own, **(settings or {})},
            cwd=folder,  # podman's conmon leaves a file there when a container runs out of memory
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait_for(answers, folder / "server.log", command[0])
        yield
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait(STOP_SECONDS)


def _wait_for(answers: Answers, log: Path, program: str) -> None:
    ends_at = time.monotonic() + START_SECONDS
    while True:
        try:
            return answers()
        except (EnvironmentFailed, OSError) as error:
            if time.monotonic() > ends_at:
                words = log.read_text(errors="replace")[-3000:]
                raise RuntimeError(f"{program} did not start:\n{words}") from error
            time.sleep(0.02)


def _clamping_runtime(folder: Path) -> str:
    """Path of a runc wrapper that lowers limits to what this machine allows."""
    (folder / "clamp_limits.py").write_text(_CLAMP)
    runtime = folder / "clamping-runc"
    runtime.write_text(_RUNTIME.replace("{python}", sys.executable).replace("{folder}", str(folder)))
    runtime.chmod(0o755)
    return str(runtime)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
