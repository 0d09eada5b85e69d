"""Web files mounted as a run has them: by a mount process of their own, from a block cache that may be cold or warm."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runyard.model.data import WEB, NetworkRules, SourceFile, StoreAccess
from runyard.mounting import ReadOnlyMount, start_mounts

RULES = NetworkRules()
STORES = {WEB: StoreAccess("web", "")}


def seen(base: str, names: Sequence[str]) -> list[SourceFile]:
    """The files as the service resolves them for a run."""
    from runyard.web.store import WebStore

    store = WebStore(RULES)
    found = [store.stat(f"{base}/{name}") for name in names]
    return [
        SourceFile(name, WEB, file.path, file.size, file.etag, file.is_ranged)
        for name, file in zip(names, found, strict=True)
    ]


@contextmanager
def mounted(files: Sequence[SourceFile], cache: Path) -> Iterator[Path]:
    """The folder of a fresh mount: nothing of it is in the kernel's page cache."""
    with tempfile.TemporaryDirectory(prefix="runyard-bench-mount-") as place:
        point, logs = Path(place, "mount"), Path(place, "log.txt")
        point.mkdir()
        life, held = os.pipe2(os.O_CLOEXEC)
        mounts = [ReadOnlyMount(point, files, "bench")]
        pid = start_mounts(mounts, STORES, RULES, cache, life=life, say=lambda line: None, logs=logs)
        os.close(life)
        try:
            yield point
        finally:
            os.close(held)
            os.waitpid(pid, 0)
