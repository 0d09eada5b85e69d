import os
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runyard.core.durable_files import replace_file, try_exclusive_lock
from runyard.environments.folder import SCRATCH, EnvironmentFolder
from runyard.environments.lockfile import LockFile

NOT_ENVIRONMENTS = frozenset({"locks", "wheels"})
LIMIT_VARIABLE = "RUNYARD_ENVIRONMENTS_BYTES"
MOST_BYTES = 100 * 10**9
MOST_OF_DISK = 0.5
SIZE_FILE = ".size"
JUST_FOUND = timedelta(minutes=10)


@dataclass(frozen=True)
class CachedEnvironment:
    key: str
    bytes: int
    last_used_at: datetime
    python: str
    packages: tuple[str, ...]
    """name==version, as locked."""
    in_use: bool
    image: str = ""
    """Id of its container image; "" for a virtual environment."""


def list_built(root: Path) -> list[CachedEnvironment]:
    """List the finished environments below `root`, least recently used first."""
    found = []
    for folder in _folders(root):
        facts = folder.facts()
        try:
            used = folder.ready.stat().st_mtime
        except OSError:
            continue
        if facts is None:
            continue
        with try_exclusive_lock(folder.use_lock) as free:
            in_use = not free
        found.append(
            CachedEnvironment(
                key=folder.key,
                bytes=_size(folder.path) + int(facts.image.get("bytes", 0)),
                last_used_at=datetime.fromtimestamp(used, UTC),
                python=facts.version,
                packages=LockFile.parse(facts.whole_lock).versions,
                in_use=in_use,
                image=str(facts.image.get("id", "")),
            )
        )
    return sorted(found, key=lambda environment: environment.last_used_at)


def prune(
    root: Path,
    *,
    keep: int = 0,
    older_than: timedelta = timedelta(0),
    now: datetime | None = None,
    wanted: Collection[str] = (),
) -> list[str]:
    """Remove environments unused for `older_than`, and leftovers of killed builds; return the removed keys.

    Keeps the `keep` most recent, the `wanted` keys, and those in use or being built. Lock files stay, so that the
    same spec resolves to the same versions again."""
    moment = now or datetime.now(UTC)
    built = list_built(root)
    spared = set(wanted) | {environment.key for environment in built[max(0, len(built) - keep) :]}
    spared |= {environment.key for environment in built if moment - environment.last_used_at < older_than}
    last_used = (moment - older_than).timestamp()
    removed = [folder.key for folder in _folders(root) if folder.key not in spared and _removed(folder, last_used)]
    remove_unfinished(root)
    return removed


def size_limit(root: Path, variables: Mapping[str, str] = os.environ) -> int:
    """Size limit of the cache in bytes: RUNYARD_ENVIRONMENTS_BYTES, else half of the disk, at most 100 GB."""
    with suppress(ValueError):
        return max(0, int(variables.get(LIMIT_VARIABLE, "")))
    return min(MOST_BYTES, int(shutil.disk_usage(root).total * MOST_OF_DISK))


def trim(
    root: Path, limit: int, spared: Collection[str] = (), *, recent: timedelta = JUST_FOUND, now: datetime | None = None
) -> list[str]:
    """Remove the least recently used environments until the rest take at most `limit` bytes; return the removed keys.

    Keeps those in use, being built, `spared`, or used within `recent`, since a run may not hold its environment yet.
    Removes leftovers of killed builds too. Cheap when nothing is to be removed: sizes are measured once.
    """
    before = ((now or datetime.now(UTC)) - recent).timestamp()
    ready = sorted((found for folder in _folders(root) if (found := _last_use(folder))), key=lambda found: found[0])
    total, removed = sum(_known_size(folder) for _, folder in ready), list[str]()
    for used, folder in ready:
        if total <= limit or used > before:
            break
        size = _known_size(folder)
        with suppress(OSError):  # the next call tries again
            if folder.key not in spared and _removed(folder, used):
                total -= size
                removed.append(folder.key)
    remove_unfinished(root)
    return removed


def remove_unfinished(root: Path) -> None:
    """Remove what killed builds left, which may include certificates of their workspaces."""
    keys = {folder.key for folder in _folders(root) if not folder.ready.exists()}
    keys |= {scratch.name.removesuffix(SCRATCH) for scratch in (root / "locks").glob(f"*{SCRATCH}")}
    for folder in (EnvironmentFolder(root, key) for key in keys):
        with (
            suppress(OSError),
            try_exclusive_lock(folder.builder_lock) as not_building,
            try_exclusive_lock(folder.use_lock) as free,
        ):
            if not_building and free and not folder.ready.exists():
                folder.remove()
            if not_building:
                folder.remove_scratch()


def _removed(folder: EnvironmentFolder, last_used: float) -> bool:
    with try_exclusive_lock(folder.builder_lock) as not_building, try_exclusive_lock(folder.use_lock) as unused:
        if not (not_building and unused):
            return False
        # A run may have found it since it was listed.
        if folder.ready.exists() and folder.ready.stat().st_mtime > last_used:
            return False
        folder.remove()
        return True


def _last_use(folder: EnvironmentFolder) -> tuple[float, EnvironmentFolder] | None:
    try:
        return folder.ready.stat().st_mtime, folder
    except OSError:
        return None


def _known_size(folder: EnvironmentFolder) -> int:
    file = folder.path / SIZE_FILE
    with suppress(OSError, ValueError):
        return int(file.read_bytes())
    facts = folder.facts()
    size = _size(folder.path) + int(facts.image.get("bytes", 0) if facts else 0)
    with suppress(OSError):  # removed meanwhile, or the disk is full
        replace_file(file, str(size).encode())
    return size


def _folders(root: Path) -> list[EnvironmentFolder]:
    if not root.is_dir():
        return []
    names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False))
    return [
        EnvironmentFolder(root, name) for name in names if name not in NOT_ENVIRONMENTS and not name.startswith(".")
    ]


def _size(path: Path) -> int:
    """Bytes on disk; files hard-linked from the package cache count in full."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # removed meanwhile
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total
