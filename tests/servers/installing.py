"""Servers that come from package registries: installed once below .cache, in folders named by their version."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "servers"
AZURITE = "azurite@3.35.0"
MOTO = "moto[s3,server]==5.2.5"


def azurite() -> Path:
    """The program that serves blobs."""
    return _installed(AZURITE, _install_with_npm) / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def moto() -> Path:
    """The folder for PYTHONPATH that holds moto's server."""
    return _installed(MOTO, _install_with_uv)


def _installed(package: str, install: Callable[[str, Path], None]) -> Path:
    folder = CACHE / "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in package)
    with _alone():
        if not folder.is_dir():
            fresh = Path(tempfile.mkdtemp(dir=CACHE))
            try:
                install(package, fresh)
                fresh.rename(folder)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _install_with_npm(package: str, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError(f"npm, which installs {package}, is not here. `make ci-setup` brings it.")
    _run([npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", package], folder)


def _install_with_uv(package: str, folder: Path) -> None:
    _run([sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(folder), package], folder)


def _run(command: list[str], folder: Path) -> None:
    environment = dict(os.environ)
    if "PIP_INDEX_URL" in environment:
        environment.setdefault("UV_DEFAULT_INDEX", environment["PIP_INDEX_URL"])
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[-1]} could not be installed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


@contextmanager
def _alone() -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
