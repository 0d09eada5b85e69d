"""The processes of one campaign: a home, its service, perhaps a PostgreSQL, clients, and who may be killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from azureml.core import Dataset, Environment, Model, Workspace
from azureml.core.model import InferenceConfig
from runyard.server.lifecycle import start_service
from tests.campaign.postgres import Postgres
from tests.campaign.scripts import CLIENT, SCORE, TRAIN
from tests.faults.yard import eventually, is_alive, this_python
from tests.serving.hosting import ask

DATA_FILES = 12


class Site:
    """`folder` holds the home, `notes` (the oracle) lies outside of it."""

    def __init__(self, folder: Path, notes: Path, *, on_postgres: bool, clients: int, runs_each: int) -> None:
        self.folder, self.notes, self.home = folder, notes, folder / "home"
        self._stack = ExitStack()
        self.postgres = self._stack.enter_context(Postgres()) if on_postgres else None
        self._clients: list[subprocess.Popen[bytes]] = []
        self._client_count, self._runs_each, self._started = clients, runs_each, 0
        self.port = 0

    def open(self) -> None:
        self.notes.mkdir(parents=True, exist_ok=True)
        os.environ["RUNYARD_HOME"] = str(self.home)
        if self.postgres:
            os.environ["RUNYARD_DATABASE_URL"] = self.postgres.address
        self.serve()
        assert (self.home / "runyard.db").exists() != bool(self.postgres), "the service has another database"
        workspace = Workspace.create("campaign", exist_ok=True, show_output=False)
        self._bring_data(workspace)
        self._deploy(workspace)
        source = self.folder / "source"
        source.mkdir()
        (source / "train.py").write_text(TRAIN, encoding="utf-8")
        (self.folder / "client.py").write_text(CLIENT, encoding="utf-8")
        self.keep_clients()

    def close(self) -> None:
        for client in self._clients:
            client.kill()
            client.wait()
        from tests.conftest import end_home

        end_home(self.home)
        self._stack.close()

    def serve(self) -> None:
        """Start the service where none runs, as an operator's supervisor of processes would."""
        start_service(self.home, keep=True)

    def keep_clients(self) -> None:
        self._clients = [client for client in self._clients if client.poll() is None]
        while len(self._clients) < self._client_count and not (self.notes / "enough").exists():
            self._started += 1
            words = [self.folder / "client.py", self.notes, self.folder / "source", self._started, self._runs_each]
            log = (self.folder / f"client-{self._started}.log").open("wb")
            command = [sys.executable, *map(str, words)]
            self._clients.append(subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log))
            log.close()

    def no_more_work(self) -> None:
        (self.notes / "enough").touch()
        for client in self._clients:
            with suppress(subprocess.TimeoutExpired):
                client.wait(120)

    def victims(self, kind: str) -> list[int]:
        """Living processes of that kind, by facts in files."""
        find: dict[str, Callable[[], Iterator[int]]] = {
            "service": lambda: _pids_in(self.home / "service.json"),
            "agent": lambda: _pids_in(self.home / "agent.json"),
            "gateway": lambda: _pids_in(self.home / "gateway.json"),
            "supervisor": lambda: _pids_in(*self.home.glob("attempts/*/supervisor.json")),
            "worker": lambda: iter(_numbers(self.notes / "workers.pids")[-1:]),
            "script": lambda: (pid for note in self.notes.iterdir() for pid in _script_pid(note)),
            "client": lambda: (client.pid for client in self._clients if client.poll() is None),
            "database": lambda: iter([self.postgres.pid] if self.postgres else []),
        }
        return [pid for pid in find[kind]() if is_alive(pid)]

    def after_kill(self, kind: str) -> None:
        """Bring back what no process of ours brings back."""
        if kind == "database" and self.postgres:
            self.postgres.start()
        if kind == "service":
            self.serve()

    def answers(self, seconds: float) -> float:
        """Seconds until the web service answers."""
        begun = time.monotonic()
        eventually(self._answers, "an answer of the web service", seconds)
        return time.monotonic() - begun

    def _answers(self) -> bool:
        with suppress(OSError, ValueError):
            return ask(self.port) == (200, "scored")
        return False

    def _bring_data(self, workspace: Workspace) -> None:
        local = self.folder / "data"
        local.mkdir()
        for number in range(DATA_FILES):
            (local / f"{number}.txt").write_text(f"content of {number}.txt", encoding="utf-8")
        store = workspace.get_default_datastore()
        store.upload(str(local), "campaign", show_progress=False)
        Dataset.File.from_files((store, "campaign")).register(workspace, "campaign")

    def _deploy(self, workspace: Workspace) -> None:
        source = self.folder / "scoring"
        source.mkdir()
        (source / "score.py").write_text(SCORE.format(pids=str(self.notes / "workers.pids")), encoding="utf-8")
        (self.folder / "model.txt").write_text("a model", encoding="utf-8")
        model = Model.register(workspace, str(self.folder / "model.txt"), "campaign")
        environment: Environment = this_python()
        config = InferenceConfig("score.py", source_directory=str(source), environment=environment)
        service = Model.deploy(workspace, "campaign", [model], config)
        service.wait_for_deployment()
        self.port = int(service.scoring_uri.split(":")[2].split("/")[0])


class FullDisk:
    """A small file system that can be filled up and emptied."""

    def __init__(self, place: Path, megabytes: int) -> None:
        self.place, self._filler = place, place / "filler"
        place.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)], check=True)

    def fill(self) -> None:
        with suppress(OSError), self._filler.open("ab", buffering=0) as sink:
            while sink.write(bytes(65536)):
                pass

    def empty(self) -> None:
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.place)], check=True)
        shutil.rmtree(self.place, ignore_errors=True)


def send(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _pids_in(*files: Path) -> Iterator[int]:
    for file in files:
        with suppress(OSError, ValueError, KeyError):
            yield int(json.loads(file.read_text(encoding="utf-8"))["pid"])


def _numbers(file: Path) -> list[int]:
    with suppress(OSError):
        return [int(line) for line in file.read_text().split()]
    return []


def _script_pid(note: Path) -> Iterator[int]:
    """The pid of a run's script whose note has no end yet."""
    with suppress(OSError):
        text = note.read_text()
        if text.startswith("pid ") and not note.name.startswith("client-") and "\nend " not in text:
            yield int(text.split()[1])
