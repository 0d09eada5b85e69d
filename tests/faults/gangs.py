"""Runs on several nodes of this machine, held open in one phase; with each of their processes in reach, and a look at
what they leave behind. The scripts use no framework and no MPI library: the platform's part of it is what is tried."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from azureml.core import Dataset, Environment, Run
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.runconfig import MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration
from runyard.core.durable_files import is_locked
from runyard.core.records.launch_plan import node_task_name
from runyard.core.records.runs import AttemptId
from tests.faults.holding import slow_package, slow_web_server
from tests.faults.yard import Yard, ended, eventually, is_alive, kill
from tests.processes import pids, words_of

SCRIPT = """
import json, os, sys, time
folder, heap = sys.argv[1], int(sys.argv[2])
rank = os.environ["RUNYARD_RANK"]
def note(name, text=""):
    with open(os.path.join(folder, name + ".new-" + rank), "w") as sink:
        sink.write(text)
    os.rename(sink.name, os.path.join(folder, name))
print("rank", rank, "is here", flush=True)
note("pid-" + rank, str(os.getpid()))
serves = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("type") == "ps"
while serves or not os.path.exists(os.path.join(folder, "gate")):
    time.sleep(0.01)
os.makedirs("outputs", exist_ok=True)
for part in range(heap):
    with open("outputs/%s-%d" % (rank, part), "wb") as sink:
        sink.write(os.urandom(1 << 20))
note("finished-" + rank)
"""
_MOMENT_SECONDS = 60
LAYOUTS: Mapping[str, Callable[[int], Any]] = {
    "mpi": lambda nodes: MpiConfiguration(1, nodes),
    "torch": lambda nodes: PyTorchConfiguration("Gloo", nodes, nodes),
    "ps": lambda nodes: TensorflowConfiguration(worker_count=nodes, parameter_server_count=1),
}


class Gang:
    """A run of a worker on each of `nodes` nodes, called gang-0 and so on; "ps" has a parameter server on the first."""

    def __init__(self, yard: Yard, layout: str, nodes: int, folder: Path) -> None:
        self.yard, self.layout, self.nodes, self._folder = yard, layout, nodes, folder
        cluster = AmlCompute.provisioning_configuration("STANDARD_D2", max_nodes=nodes)
        ComputeTarget.create(yard.workspace, "gang", cluster).wait_for_completion()
        self.run: Run
        self._networks: set[str] = set()
        self._held: int | None = None
        self._known: dict[str, int] = {}
        self._memory: frozenset[str] = frozenset()

    def submit(self, script: str = SCRIPT, *, heap: int = 0, arguments: tuple[Any, ...] = (), **options: Any) -> "Gang":
        job = LAYOUTS[self.layout](self.nodes)
        options |= {"compute_target": "gang", "distributed_job_config": job}
        config = self.yard.config(script, arguments=(self._folder, heap, *arguments), **options)
        config.run_config.node_count = self.nodes
        self.run = self.yard.submit_config(config)
        return self

    def let_go(self) -> None:
        (self._folder / "gate").touch()

    def until_all_run(self) -> None:
        for rank in range(self.nodes + (self.layout == "ps")):
            self.pid_of(f"rank {rank}")
        eventually(lambda: self.run.get_status() == "Running", f"Running on {self.run.id}")
        rank = self.pid_of("rank 0")
        self._networks = {_network_of(rank)} - {_network_of(os.getpid())}
        # Held open, a network keeps its number: else the next one that anybody makes on this machine may have it.
        self._held = os.open(f"/proc/{rank}/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def remember(self, *victims: str) -> None:
        """Those may be gone, with all they were to do, when they are to be killed."""
        self._known = {victim: self.pid_of(victim) for victim in victims}

    @property
    def has_finished(self) -> bool:
        return all((self._folder / f"finished-{rank}").exists() for rank in range(self.nodes))

    def pid_of(self, victim: str) -> int:
        """Waits until there is one. "rank N", "supervisor N", "mpirun", "orted" of node 1, "rsh agent", "pasta"; and
        those of all runs: "agent", "service"."""
        return eventually(lambda: self._find(victim), f"{victim} of {self.run.id}")

    def kill(self, victim: str) -> None:
        pid = self._known.get(victim) or self.pid_of(victim)
        if victim not in self._known or pid in self.yard.processes():
            kill(pid)

    def part(self, node: int) -> Path:
        attempts = sorted(self.yard.home.glob(f"attempts/{self.run.id}.*"))
        attempt = max(int(place.name.rpartition(".")[2].partition("-")[0]) for place in attempts) if attempts else 1
        return self.yard.home / "attempts" / node_task_name(AttemptId(f"{self.run.id}.{attempt}"), node)

    def _find(self, victim: str) -> int | None:
        what, _, number = victim.partition(" ")
        if victim in ("agent", "service"):
            return self.yard.find_pid(victim, self.run)
        if what == "rank":
            return _pid_in(self._folder / f"pid-{number}")
        if what == "supervisor":
            with suppress(OSError, ValueError):
                return int(json.loads((self.part(int(number)) / "supervisor.json").read_text(encoding="utf-8"))["pid"])
            return None
        if what == "pasta":
            supervisor = self._find("supervisor 0")
            return next((pid for pid in pids() if _parent(pid) == supervisor and b"pasta" in _program(pid)[0]), None)
        program = "/rsh_agent.py" if what == "rsh" else f"/{what}"
        part = f"RUNYARD_PART={self.part(1 if what == 'orted' else 0).name}".encode()
        found = (pid for pid in self.yard.processes() if part in _environ(pid))
        return next((pid for pid in found if _runs(program.encode(), _program(pid))), None)

    def check_nothing_is_left(self) -> None:
        """No process, namespace, port, folder or shared memory outlives the run for more than a moment."""
        with suppress(TimeoutError):
            eventually(lambda: not self._left_behind(), "an empty machine", _MOMENT_SECONDS)
        left = self._left_behind()
        if self._held is not None:
            os.close(self._held)
            self._held = None
        assert not left, left

    def _left_behind(self) -> list[str]:
        platform = {self.yard.find_pid(name, self.run) for name in ("agent", "keeper", "service")}
        home = self.yard.home
        left = [
            f"process {pid}: {_name(pid)}" for pid in self.yard.processes() if pid not in platform and is_alive(pid)
        ]
        left += [f"{_name(pid)} in the run's network" for pid in pids() if _network_of(pid) in self._networks]
        places = [home / "attempts", home / "mounts"]
        left += [str(path) for place in places if place.exists() for path in place.iterdir()]
        left += [str(path) for path in (home / "ports").glob("*") if path.is_dir() or is_locked(path)]
        left += [str(path) for path in Path("/dev/shm").glob("runyard-*") if path.name in self._memory]
        return left

    def watch_memory(self) -> None:
        """From now on its folders in shared memory are known: other runs of the machine have theirs there too."""
        variables = [word for rank in range(self.nodes) for word in _environ(self.pid_of(f"rank {rank}"))]
        found = [word.rpartition(b"/")[2] for word in variables if b"=/dev/shm/runyard-" in word]
        self._memory = frozenset(map(os.fsdecode, found))
        assert bool(self._memory) == (self.layout == "mpi")


@contextmanager
def preparing(gang: Gang, folder: Path) -> Iterator[None]:
    """The environment holds a package whose build waits for the gate."""
    environment = Environment("slow")
    environment.python.conda_dependencies = CondaDependencies.create(
        pip_packages=[f"slow-package @ {slow_package(folder).as_uri()}"], pin_sdk_version=False
    )
    gang.submit(environment=environment)
    eventually((folder / "building").exists, "the build")
    yield
    gang.let_go()


@contextmanager
def starting(gang: Gang, folder: Path) -> Iterator[None]:
    """All nodes wait for data, whose server does not answer before the gate opens."""
    with slow_web_server(folder) as address:
        data = Dataset.File.from_files(f"{address}/data.bin", validate=False).as_named_input("data").as_download()
        gang.submit(arguments=(data,))
        eventually((folder / "asked").exists, "the request for data")
        yield
        gang.let_go()
        ended(gang.run)


@contextmanager
def meeting(gang: Gang, folder: Path) -> Iterator[None]:
    """Node 0 is ready and waits for node 1, whose supervisor is frozen."""
    with starting(gang, folder):
        last = gang.pid_of("supervisor 1")
        os.kill(last, signal.SIGSTOP)
        gang.let_go()
        eventually((gang.part(0) / "ready.json").exists, "node 0 to be ready")
        yield
        with suppress(ProcessLookupError):
            os.kill(last, signal.SIGCONT)


@contextmanager
def running(gang: Gang, folder: Path) -> Iterator[None]:
    gang.submit().until_all_run()
    gang.watch_memory()
    yield
    gang.let_go()


@contextmanager
def ending(gang: Gang, folder: Path) -> Iterator[None]:
    """All workers have ended, and each node has a heap of outputs to bring in."""
    gang.submit(heap=300).until_all_run()
    gang.watch_memory()
    gang.remember("supervisor 0", "supervisor 1")
    gang.let_go()
    eventually(lambda: gang.has_finished, "the end of the ranks")
    yield


HOLDS: Mapping[str, Callable[[Gang, Path], AbstractContextManager[None]]] = {
    "Preparing": preparing,
    "Starting": starting,
    "Meeting": meeting,
    "Running": running,
    "Ending": ending,
}


def _pid_in(file: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(file.read_text(encoding="utf-8"))
    return None


def _network_of(pid: int) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/net")
    return ""


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    return ""


def _parent(pid: int) -> int | None:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    return None


def _program(pid: int) -> list[bytes]:
    return next(words_of(pid), b"").split(b"\0")


def _runs(program: bytes, words: list[bytes]) -> bool:
    """An interpreter's program comes after its options."""
    return any(word.endswith(program) for word in words[: 5 if b"python" in words[0] else 1])


def _environ(pid: int) -> list[bytes]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []
