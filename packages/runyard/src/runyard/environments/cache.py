import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runyard.environments.durable import locked_if_free
from runyard.environments.folder import EnvironmentFolder

NOT_ENVIRONMENTS = frozenset({"locks", "wheels"})


@dataclass(frozen=True)
class CachedEnvironment:
    key: str
    bytes: int
    last_used_at: datetime
    python: str
    packages: tuple[str, ...]
    """name==version, as locked."""
    in_use: bool


def list_built(root: Path) -> list[CachedEnvironment]:
    """The finished environments below `root`, least recently used first."""
    found = []
    for folder in _folders(root):
        try:
            used = folder.ready.stat().st_mtime
            facts = json.loads(folder.ready.read_bytes())
        except (OSError, ValueError):
            continue
        with locked_if_free(folder.use_lock) as free:
            in_use = not free
        packages = tuple(line for line in facts["lock"].splitlines() if "==" in line)
        last_used_at = datetime.fromtimestamp(used, UTC)
        found.append(
            CachedEnvironment(folder.key, _size(folder.path), last_used_at, facts["version"], packages, in_use)
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
    """Remove environments unused for `older_than`, but not the `keep` most recent, nor those of the `wanted` keys, nor
    one that a run holds or a builder fills. Leftovers of killed builders go too. Locks stay: the same spec gives the
    same versions again."""
    moment = now or datetime.now(UTC)
    built = list_built(root)
    spared = set(wanted) | {environment.key for environment in built[max(0, len(built) - keep) :]}
    spared |= {environment.key for environment in built if moment - environment.last_used_at < older_than}
    return [
        folder.key for folder in _folders(root) if folder.key not in spared and _removed(folder, moment - older_than)
    ]


def _removed(folder: EnvironmentFolder, used_before: datetime) -> bool:
    with locked_if_free(folder.builder_lock) as unbuilt, locked_if_free(folder.use_lock) as unused:
        if not (unbuilt and unused):
            return False
        # It may have been found by a run since it was listed.
        if folder.ready.exists() and folder.ready.stat().st_mtime > used_before.timestamp():
            return False
        folder.remove()
        return True


def _folders(root: Path) -> list[EnvironmentFolder]:
    if not root.is_dir():
        return []
    names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False))
    return [
        EnvironmentFolder(root, name) for name in names if name not in NOT_ENVIRONMENTS and not name.startswith(".")
    ]


def _size(path: Path) -> int:
    """Bytes on disk of the folder alone: files shared with the package cache count for what they hold."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total
