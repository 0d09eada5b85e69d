import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from runyard.errors import EngineError

_PACKAGES = ("azureml", "runyard_sdk")


def ensure_sdk_folder(home: Path) -> Path:
    """A folder that holds the SDK's packages and nothing else, for the path of every run.

    Its name changes with the SDK's files, so a run keeps the SDK it started with when another is installed.
    """
    source = _installed_sdk()
    files = [file for package in _PACKAGES for file in sorted((source / package).rglob("*.py"))]
    folder = home / "sdk" / f"{importlib.metadata.version('runyard-sdk')}-{_fingerprint(source, files)}"
    if not folder.is_dir():
        _copy(source, files, folder)
    return folder


def _installed_sdk() -> Path:
    found = importlib.util.find_spec("runyard_sdk")
    if found is None or not found.submodule_search_locations:
        raise EngineError(
            "The package runyard-sdk is not installed beside runyard.", hint="Run: pip install runyard-sdk"
        )
    return Path(found.submodule_search_locations[0]).parent


def _fingerprint(source: Path, files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        found = file.stat()
        digest.update(f"{file.relative_to(source)}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _copy(source: Path, files: list[Path], folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        for file in files:
            target = beside / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        beside.chmod(0o755)
        os.rename(beside, folder)
    except OSError:
        if not folder.is_dir():  # else another supervisor was first
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
