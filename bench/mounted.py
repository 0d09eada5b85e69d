"""Web files mounted as a run has them: by a process of their own, from a block cache that may be cold or warm.

As a program it is that process: the files come as the first line of its input, whose end unmounts them.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path

from runyard.core.records.data import WEB, NetworkRules, SourceFile, StoreAccess
from runyard.data.fuse import ReadOnlyMount, serve_mount
from runyard.data.http.store import WebStore

RULES = NetworkRules()
STORES = {WEB: StoreAccess("web", "")}


def seen(base: str, names: Sequence[str]) -> list[SourceFile]:
    """The files as the service resolves them for a run."""
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
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.mounted", place, str(cache)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps([astuple(file) for file in files]).encode() + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"mounted\n"
        try:
            yield Path(place)
        finally:
            process.stdin.close()
            process.wait()
            process.stdout.close()


def _serve(place: Path, cache: Path) -> None:
    files = [SourceFile(*file) for file in json.loads(sys.stdin.buffer.readline())]
    mount = ReadOnlyMount(place, files, "bench")
    serve_mount(
        mount,
        STORES,
        RULES,
        cache,
        life=sys.stdin.fileno(),
        ready=lambda: print("mounted", flush=True),
        log_line=lambda line: None,
    )


if __name__ == "__main__":
    os.umask(0o077)
    _serve(Path(sys.argv[1]), Path(sys.argv[2]))
