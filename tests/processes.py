import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def pids() -> list[int]:
    """Of all processes of the machine."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def words_of(pid: int) -> Iterator[bytes]:
    """Its command line, variables, working folder and open files; nothing of one that has ended."""
    process = Path("/proc", str(pid))
    with suppress(OSError):
        yield (process / "cmdline").read_bytes()
        yield (process / "environ").read_bytes()
        yield os.fsencode(os.readlink(process / "cwd"))
        for descriptor in os.listdir(process / "fd"):
            with suppress(FileNotFoundError):
                yield os.fsencode(os.readlink(process / "fd" / descriptor))


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Freeze a process for the block; it may be gone at the end."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def thread_heaps(pid: int) -> int:
    """How many heaps glibc has made for threads of that process: each begins at a multiple of 64 MiB."""
    maps = [line.split() for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()]
    unnamed = [fields[0] for fields in maps if len(fields) == 5 and fields[1] == "rw-p"]
    return sum(int(place.partition("-")[0], 16) % (64 << 20) == 0 for place in unnamed)
