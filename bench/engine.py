"""A container engine of the measurements' own, with a Debian that has no Python, made on the spot."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runyard.testing.base_images import PLAIN, debian_archive
from runyard.testing.container_engine import missing_programs, running_docker


def has_engine(row: str) -> bool:
    """Whether one can be started here; where not, the row says why on stderr."""
    missing = missing_programs()
    why = f"{', '.join(missing)} missing (make ci-setup)" if missing else "" if os.geteuid() == 0 else "needs root"
    if why:
        print(f"{row}: no container engine can be started: {why}.", file=sys.stderr)
    return not why


@contextmanager
def open_engine() -> Iterator[str]:
    """The name of the image. For the block DOCKER_HOST leads here; a service that is started within finds it."""
    before = os.environ.get("DOCKER_HOST")
    # A socket's path is at most 108 characters long.
    with running_docker(Path(tempfile.mkdtemp(prefix="engine-"))) as engine:
        name = f"debian-{PLAIN}:12"
        with debian_archive(PLAIN).open("rb") as archive:
            engine.images.import_archive(archive, name)
        os.environ["DOCKER_HOST"] = engine.address
        try:
            yield name
        finally:
            if before is None:
                del os.environ["DOCKER_HOST"]
            else:
                os.environ["DOCKER_HOST"] = before
