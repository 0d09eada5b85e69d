import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, megabytes: int) -> Iterator[Path]:
    """A file system of that size. Mounting needs root, which CI has; elsewhere the test says that it did not run."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"A small disk needs root: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
