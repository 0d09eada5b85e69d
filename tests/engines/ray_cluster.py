"""A real Ray cluster on this machine: a head and raylets of their own on loopback addresses.

Each has a token of its own, since Ray's head listens on every interface. Its processes are ended one by one, by what
they were given: `ray stop` would end every Ray of the machine.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.processes import pids, words_of

HEAD = "127.0.0.9"
FAKE_HEAD = "f" * 51 + "0" * 5
FAKE_HEAD_KIND = "ray.head.default"
"""The id and the kind by which Ray's fake provider knows the head."""
LISTS_OF_A_CONFIG = (
    "cluster_synced_files",
    "initialization_commands",
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
)
START_SECONDS = 120.0
QUICK_HEALTH = {
    "RAY_raylet_start_wait_time_s": "100",
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
}


class RayCluster:
    def __init__(self, folder: Path) -> None:
        """`folder` must have a short name: Ray puts sockets below it."""
        self.folder, self.node_home = folder, folder / "nodes"
        self.port, self.client_port = free_port(), free_port()
        self.address, self.client_address = f"{HEAD}:{self.port}", f"ray://{HEAD}:{self.client_port}"
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        self.variables = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        self._fake: dict[str, str] = {}
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start_head(self, *options: str) -> None:
        """With no CPU, so that runs go to the nodes. The same address when it is started again."""
        ports = ["--head", f"--port={self.port}", f"--ray-client-server-port={self.client_port}"]
        self._begin(HEAD, *ports, f"--temp-dir={self.folder}/t", "--include-dashboard=false", "--num-cpus=0", *options)
        self._await(HEAD)

    def start_scaling_head(self, *, most: int, cpus: int, idle_seconds: float) -> None:
        """A head whose autoscaler starts and ends raylets of this machine by itself, none at first."""
        kinds = {
            FAKE_HEAD_KIND: {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "worker": {
                "resources": {"CPU": cpus, "object_store_memory": 80_000_000},
                "node_config": {},
                "min_workers": 0,
                "max_workers": most,
            },
        }
        config = {
            "cluster_name": "scaling",
            "max_workers": most,
            "provider": {"type": "fake_multinode", "use_node_id_as_ip": True, "gcs_address": self.address},
            "available_node_types": kinds,
            "head_node_type": FAKE_HEAD_KIND,
            "upscaling_speed": 10.0,
            "idle_timeout_minutes": idle_seconds / 60,
            **{key: {} for key in ("auth", "docker", "file_mounts")},
            **{key: [] for key in LISTS_OF_A_CONFIG},
        }
        file = self.folder / "autoscaling.yaml"  # JSON is YAML
        file.write_text(json.dumps(config))
        self._fake = {
            "RAY_FAKE_CLUSTER": "1",
            "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD,
            "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        }
        self.start_head(f"--autoscaling-config={file}")

    def start_nodes(self, count: int, *, first: int = 2, cpus: int = 2, gpus: int = 0) -> list[str]:
        addresses = [f"127.0.0.{number}" for number in range(first, first + count)]
        for address in addresses:
            known = self._raylet_sockets()
            self._begin(address, f"--address={self.address}", f"--num-cpus={cpus}", f"--num-gpus={gpus}")
            # Nodes that start at the same time choose the same socket: each waits until the last one's is there.
            self._wait_until(address, lambda known=known: self._raylet_sockets() > known)
        for address in addresses:
            self._await(address)
        return addresses

    def raylet_of(self, address: str) -> int:
        """Its process."""
        wanted = f"--node_ip_address={address}".encode()
        for pid in self.processes():
            words = next(words_of(pid), b"").split(b"\0")
            if words[0].endswith(b"/raylet") and wanted in words:
                return pid
        raise LookupError(f"there is no raylet with the address {address}")

    def kill_raylet(self, address: str) -> None:
        os.kill(self.raylet_of(address), signal.SIGKILL)

    def kill_head(self) -> None:
        """All of it at once, as when its machine is switched off."""
        self._kill(HEAD)

    def processes(self) -> list[int]:
        """Everything that works for this cluster or was started by it."""
        needle = os.fsencode(self.folder)
        own = os.getpid()
        return [pid for pid in pids() if pid != own and any(needle in text for text in words_of(pid))]

    def close(self) -> None:
        for address in list(self._started):
            self._kill(address)
        ends_at = time.monotonic() + 20
        while (left := self.processes()) and time.monotonic() < ends_at:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _raylet_sockets(self) -> set[Path]:
        return set(self.folder.glob("t/session_2*/sockets/raylet*"))

    def _begin(self, address: str, *options: str) -> None:
        log = self.folder / f"{address}.log"
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block", f"--node-ip-address={address}"]
        command += ["--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=80000000", *options]
        with log.open("wb") as output:
            self._started[address] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment({**QUICK_HEALTH, **self._fake}),
                start_new_session=True,
            )

    def _await(self, address: str) -> None:
        log = self.folder / f"{address}.log"
        self._wait_until(address, lambda: b"Ray runtime started" in log.read_bytes())

    def _wait_until(self, address: str, is_so: Callable[[], bool]) -> None:
        log, process = self.folder / f"{address}.log", self._started[address]
        ends_at = time.monotonic() + START_SECONDS
        while not is_so():
            if process.poll() is not None or time.monotonic() > ends_at:
                raise RuntimeError(f"Ray at {address} did not start:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.05)

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Of Ray's processes: proxies would take its own connections away."""
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        node_home = {"RUNYARD_NODE_HOME": str(self.node_home)}
        return {**kept, **self.variables, **node_home, **more}

    def _kill(self, address: str) -> None:
        process = self._started.pop(address)
        for pid in [process.pid, *below(process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    # Not below TMPDIR, which may be long: the path of a socket has 107 letters, and Ray uses 63 of them.
    cluster = RayCluster(Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp")))
    try:
        yield cluster
    finally:
        cluster.close()


def free_port() -> int:
    """Outside of what Ray gives its workers (10002-19999) and of what the kernel gives to others."""
    while True:
        port = 20000 + secrets.randbelow(10000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("0.0.0.0", port))
            return port


def below(root: int) -> list[int]:
    """Processes that `root` and its children started; what our agents started is not among them."""
    parents = {}
    for pid in pids():
        with contextlib.suppress(OSError):
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    found, waiting = [], [root]
    while waiting:
        parent = waiting.pop()
        children = [pid for pid, its in parents.items() if its == parent]
        found += children
        waiting += children
    return found
