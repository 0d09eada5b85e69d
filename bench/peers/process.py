"""Other projects, each in an environment of its own under .cache/bench-peers, made when first asked for."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from uv import find_uv_bin

from bench.measuring import Subject, median

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / ".cache" / "bench-peers"
# What computes the answers has to be the same for all that are compared.
SCORING = ["scikit-learn==1.9.0", "numpy==2.4.6"]
REQUIREMENTS = {
    "mlflow": ["mlflow", "setuptools<81"],
    "metaflow": ["metaflow", "setuptools<81"],
    "ray": ["ray[default]"],
    "ray-tune": ["ray[tune]"],
    "optuna": ["optuna"],
    "sacred": ["sacred", "setuptools<81"],
    "tensorboard": ["tensorboardX", "tensorboard", "setuptools<81"],
    "aim": ["aim"],
    "wandb": ["wandb"],
    "boto3": ["boto3"],
    "serve-floor": ["uvicorn", "starlette", "uvloop", "httptools", *SCORING],
    "serve-mlflow": ["mlflow", "setuptools<81", *SCORING],
    "serve-azureml": ["azureml-inference-server-http", "setuptools<81", *SCORING],
    "serve-bentoml": ["bentoml", "setuptools<81", *SCORING],
    "serve-litserve": ["litserve", *SCORING],
}
INSTALL_SECONDS = 300


class PeerFailed(Exception):
    """The peer gave no number; the text says why."""


def peer_python(name: str) -> str:
    """The peer's interpreter. PeerFailed with the installer's words when it cannot be installed here."""
    place = FOLDER / name
    python = place / "bin" / "python"
    if not (place / "installed").exists():
        uv = os.fspath(find_uv_bin())
        FOLDER.mkdir(parents=True, exist_ok=True)
        _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)])
        _run([uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python), *REQUIREMENTS[name]])
        (place / "installed").touch()
    return str(python)


class PeerProcess:
    """A peer's script that is told `go` and answers with one number, as often as it is asked."""

    def __init__(self, python: str, script: str, arguments: Sequence[str], folder: Path) -> None:
        self._errors = (folder / "stderr").open("w+")
        self._process = subprocess.Popen(
            [python, str(REPOSITORY / "bench" / "peers" / script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | OFFLINE,
        )

    def __call__(self) -> float:
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerFailed(self._last_words()) from None
        for line in self._process.stdout:
            if line.startswith("RESULT "):
                return float(json.loads(line.removeprefix("RESULT ")))
        raise PeerFailed(self._last_words())

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = [line for line in self._errors.read().splitlines() if line.strip()]
        return lines[-1] if lines else f"ended with {self._process.poll()}"


OFFLINE = {
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "METAFLOW_USER": "bench",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "GIT_PYTHON_REFRESH": "quiet",
}


@contextmanager
def open_peers(wanted: dict[str, tuple[str, str, list[str]]], folder: Path) -> Iterator["Peers"]:
    """Start the peers' scripts: label -> (peer, script, arguments). Those that cannot start are told in `reasons`."""
    peers = Peers()
    try:
        for label, (name, script, arguments) in wanted.items():
            own = folder / label.replace(" ", "-")
            own.mkdir(parents=True)
            peers.add(label, name, script, arguments, own)
        yield peers
    finally:
        peers.close()


class Peers:
    """Those that answer, as subjects to measure; `reasons` tells why a peer gave no number, or stopped giving them."""

    def __init__(self) -> None:
        self.running: dict[str, Subject] = {}
        self.reasons: dict[str, str] = {}
        self._processes: list[PeerProcess] = []

    def add(self, label: str, name: str, script: str, arguments: list[str], folder: Path) -> None:
        try:
            process = PeerProcess(peer_python(name), script, arguments, folder)
            self._processes.append(process)
            process()  # the first answer is the warm-up, and tells whether it works at all
        except PeerFailed as failure:
            self.reasons[label] = str(failure)
        else:
            self.running[label] = lambda: self._ask(label, process)

    def medians(self, taken: Mapping[str, Sequence[float]]) -> dict[str, float | None]:
        return {label: median(taken[label]) for label in self.running if label not in self.reasons} | dict.fromkeys(
            self.reasons
        )

    def close(self) -> None:
        for process in self._processes:
            process.close()

    def _ask(self, label: str, process: PeerProcess) -> float:
        """A peer that fails in the middle must not end the measurement of the others."""
        if label not in self.reasons:
            try:
                return process()
            except PeerFailed as failure:
                self.reasons[label] = str(failure)
        return float("nan")


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise PeerFailed(f"installing took more than {INSTALL_SECONDS} s") from None
    if done.returncode:
        raise PeerFailed(f"cannot be installed: {' '.join(done.stderr.split())[:300]}")
