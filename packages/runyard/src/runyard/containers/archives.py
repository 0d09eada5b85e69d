import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from runyard.containers.failures import Refused

TRIES = 3
END_MARK = 2 * tarfile.BLOCKSIZE


@contextmanager
def writing_tar(into: IO[bytes], *, follow_links: bool = False) -> Iterator[tarfile.TarFile]:
    """Write a tar without padding after its end mark, and rewind it.

    `tarfile` pads to 10 KiB. podman's unpacking process exits at the end mark, so writing the padding fails with a
    broken pipe.
    """
    tar = tarfile.open(fileobj=into, mode="w", dereference=follow_links)  # noqa: SIM115 - closed below
    yield tar
    ends_at = into.tell()
    tar.close()
    into.truncate(ends_at + END_MARK)
    into.seek(0)


def sent_again_if_broken(archive: IO[bytes], send: Callable[[], None]) -> None:
    """Send a seekable archive; retry if a pipe inside the engine breaks. Sending twice is harmless."""
    begins_at = archive.tell()
    for tries_left in reversed(range(TRIES)):
        try:
            return send()
        except Refused as error:
            if not tries_left or "broken pipe" not in error.said:
                raise
            archive.seek(begins_at)
