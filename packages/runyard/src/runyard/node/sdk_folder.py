import contextlib
import hashlib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runyard.core.errors import EngineError
from runyard.core.run_folders import sdk_root
from runyard.core.version import VERSION

_PACKAGES = ("azureml", "runyard_sdk")
_SMALLEST_BLOCK = 512


def ensure_sdk_folder(home: Path) -> Path:
    """Return a folder with the SDK's packages and nothing else, for PYTHONPATH of every run. Made when missing.

    Its name changes with the SDK's files, so a run keeps the SDK that it started with when another is installed.
    """
    folder = sdk_root(home) / f"{VERSION}-{sdk_digest()}"
    if not folder.is_dir():
        _copy(_installed_sdk(), folder)
    return folder


class Bytecode:
    """The .pyc files of an SDK folder, which the Pythons of scripts write there.

    Python before 3.13.1 does not notice a short write: on a disk that fills up, it leaves a truncated file that ends at
    a block boundary, and every later run that imports the module fails.
    """

    def __init__(self, folder: Path) -> None:
        packages = (path for path, _, names in os.walk(folder) if "__init__.py" in names)
        self._seen = {os.path.join(path, "__pycache__"): 0 for path in packages}

    def remove_truncated(self) -> None:
        """Remove files that may be truncated, in folders that have changed. Python makes them again."""
        for cache, seen in self._seen.items():
            with contextlib.suppress(OSError):
                changed = os.stat(cache).st_mtime_ns
                if changed != seen:
                    _remove_truncated(cache)
                    self._seen[cache] = changed


def _remove_truncated(cache: str) -> None:
    with os.scandir(cache) as entries:
        for entry in entries:
            if entry.name.endswith(".pyc") and entry.stat().st_size % _SMALLEST_BLOCK == 0:
                os.unlink(entry.path)


def sdk_digest() -> str:
    """Digest that changes with any file of the installed SDK."""
    source = _installed_sdk()
    versions = sorted(version for package in _PACKAGES for version in _file_versions(str(source / package)))
    return hashlib.sha256("\n".join(versions).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _installed_sdk() -> Path:
    found = importlib.util.find_spec("runyard_sdk")
    if found is None or not found.submodule_search_locations:
        raise EngineError(
            "The package runyard-sdk is not installed beside runyard.", hint="Install its wheel from the same release."
        )
    return Path(found.submodule_search_locations[0]).parent


def _file_versions(folder: str) -> Iterator[str]:
    """Path, size and time of each Python file below."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == "__pycache__":
                continue  # another user's service may have made it, for itself alone
            if entry.is_dir():
                yield from _file_versions(entry.path)
            elif entry.name.endswith(".py"):
                found = entry.stat()
                yield f"{entry.path} {found.st_size} {found.st_mtime_ns}"


def _copy(source: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        for file in (file for package in _PACKAGES for file in (source / package).rglob("*.py")):
            target = beside / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        _open_for_reading(beside)
        os.rename(beside, folder)
    except OSError:
        if not folder.is_dir():  # otherwise another supervisor made it first
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _open_for_reading(folder: Path) -> None:
    """Let every user read the folder: a container may run as another user, and the umask may be strict."""
    for path, _, names in os.walk(folder):
        os.chmod(path, 0o755)
        for name in names:
            os.chmod(os.path.join(path, name), 0o644)
