"""Runs held open in one phase until the block ends, with a record of what their script was told is safe."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from azureml.core import Dataset, Environment, Run
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.conda_dependencies import CondaDependencies
from tests.faults.yard import Yard, ended, eventually

SCRIPT = """
import os, sys, time
from azureml.core import Run
folder, heap = sys.argv[1], int(sys.argv[2])
def note(name, text):
    with open(os.path.join(folder, name), "a") as sink:
        sink.write(text + "\\n")
note("pids", str(os.getpid()))
run = Run.get_context()
step = 0
while step < 100 or not os.path.exists(os.path.join(folder, "gate")):
    point = int(time.time() * 1e6)
    run.log("point", point)
    note("acknowledged", str(point))
    step += 1
    time.sleep(0.002)
os.makedirs("outputs", exist_ok=True)
for part in range(heap):
    with open("outputs/%d" % part, "wb") as sink:
        sink.write(b"%d" % part)
        sink.truncate(1 << 20)
note("finished", "yes")
"""


class Held:
    """A run in flight. Its script writes to `folder` what it was told; the gate file lets it end."""

    def __init__(self, run: Run, folder: Path) -> None:
        self.run, self._folder = run, folder

    @property
    def acknowledged(self) -> list[int]:
        return [int(line) for line in self._lines("acknowledged")]

    @property
    def finished(self) -> bool:
        return bool(self._lines("finished"))

    def script_pids(self) -> list[int]:
        return [int(line) for line in self._lines("pids")]

    def script_pid(self) -> int:
        return eventually(self.script_pids, "the script's process")[-1]

    def let_go(self) -> None:
        (self._folder / "gate").touch()

    def _lines(self, name: str) -> list[str]:
        """Whole lines only: a killed script may have written half of one."""
        file = self._folder / name
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]


def _submitted(yard: Yard, folder: Path, *, heap: int = 0, arguments: tuple[Any, ...] = (), **options: Any) -> Held:
    return Held(yard.submit(SCRIPT, arguments=(folder, heap, *arguments), **options), folder)


def _until(held: Held, status: str) -> None:
    eventually(lambda: held.run.get_status() == status, f"{status} on {held.run.id}")


@contextmanager
def preparing(yard: Yard, folder: Path) -> Iterator[Held]:
    """The environment holds a package whose build waits for the gate."""
    package = slow_package(folder)
    environment = Environment("slow")
    environment.python.conda_dependencies = CondaDependencies.create(
        pip_packages=[f"slow-package @ {package.as_uri()}"], pin_sdk_version=False
    )
    held = _submitted(yard, folder, environment=environment)
    eventually((folder / "building").exists, "the build")
    _until(held, "Preparing")
    yield held
    held.let_go()


@contextmanager
def queued(yard: Yard, folder: Path) -> Iterator[Held]:
    """The cluster's only node is held by another run."""
    options = AmlCompute.provisioning_configuration(vm_size="STANDARD_D2_V2", max_nodes=1)
    ComputeTarget.create(yard.workspace, "one-node", options).wait_for_completion()
    other = folder / "other"
    other.mkdir()
    first = _submitted(yard, other, compute_target="one-node")
    _until(first, "Running")
    held = _submitted(yard, folder, compute_target="one-node")
    _until(held, "Queued")
    yield held
    first.let_go()
    held.let_go()
    assert ended(first.run).get_status() == "Completed"


@contextmanager
def starting(yard: Yard, folder: Path) -> Iterator[Held]:
    """The data's server does not answer before the gate opens."""
    with slow_web_server(folder) as address:
        data = Dataset.File.from_files(f"{address}/data.bin", validate=False).as_named_input("data").as_download()
        held = _submitted(yard, folder, arguments=(data,))
        eventually((folder / "asked").exists, "the request for data")
        _until(held, "Starting")
        yield held
        held.let_go()
        ended(held.run)


@contextmanager
def running(yard: Yard, folder: Path) -> Iterator[Held]:
    held = _submitted(yard, folder)
    _until(held, "Running")
    eventually(lambda: len(held.acknowledged) >= 20, "twenty points")
    yield held
    held.let_go()


@contextmanager
def finalizing(yard: Yard, folder: Path) -> Iterator[Held]:
    """The script has ended and leaves a heap of outputs behind, which takes a while to bring in."""
    held = _submitted(yard, folder, heap=1500)
    held.let_go()
    eventually(lambda: held.finished, "the end of the script")
    _until(held, "Finalizing")
    yield held


HOLDS: Mapping[str, Callable[[Yard, Path], AbstractContextManager[Held]]] = {
    "Preparing": preparing,
    "Queued": queued,
    "Starting": starting,
    "Running": running,
    "Finalizing": finalizing,
}

BUILD_BACKEND = """
import os, time, zipfile
FOLDER = {folder!r}
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    open(os.path.join(FOLDER, "building"), "w").close()
    while not os.path.exists(os.path.join(FOLDER, "gate")):
        time.sleep(0.02)
    name = "slow_package-1.0-py3-none-any.whl"
    info = "slow_package-1.0.dist-info/"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: slow-package\\nVersion: 1.0\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", info + "METADATA,,\\n" + info + "WHEEL,,\\n" + info + "RECORD,,\\n")
    return name
"""


def slow_package(folder: Path) -> Path:
    package = folder / "slow-package"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "slow-package"\nversion = "1.0"\n',
        encoding="utf-8",
    )
    (package / "backend.py").write_text(BUILD_BACKEND.format(folder=str(folder)), encoding="utf-8")
    return package


@contextmanager
def slow_web_server(folder: Path) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            (folder / "asked").touch()
            eventually((folder / "gate").exists, "the gate")
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"data")

        def log_message(self, *_: Any) -> None:
            """Quiet: pytest shows what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
