"""Tar archives as engines take them."""

import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from runyard.containers.failures import Refused

TRIES = 3
END_MARK = 2 * tarfile.BLOCKSIZE


@contextmanager
def writing_tar(into: IO[bytes], *, follow_links: bool = False) -> Iterator[tarfile.TarFile]:
    """A tar that ends at its end mark, rewound for its reader.

    `tarfile` pads to 10 KiB. podman's unpacking process stops at the end mark and exits, and whoever still writes
    padding to it gets a broken pipe.
    """
    tar = tarfile.open(fileobj=into, mode="w", dereference=follow_links)  # noqa: SIM115 - closed below
    yield tar
    ends_at = into.tell()
    tar.close()
    into.truncate(ends_at + END_MARK)
    into.seek(0)


def sent_again_if_broken(archive: IO[bytes], send: Callable[[], None]) -> None:
    """Send a rewindable archive, a few times where the engine's own pipe breaks. Sending twice changes nothing."""
    begins_at = archive.tell()
    for tries_left in reversed(range(TRIES)):
        try:
            return send()
        except Refused as no:
            if not tries_left or "broken pipe" not in no.said:
                raise
            archive.seek(begins_at)
