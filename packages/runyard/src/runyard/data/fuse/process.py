import gc
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from runyard.core.disk import write_all
from runyard.core.durable_files import replacement
from runyard.core.errors import DataFailed, RunyardError, from_wire, to_wire
from runyard.core.ports.data import Progress
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.fuse.log import MountLog, WriteLine, line_writer
from runyard.data.fuse.mounts import Mount, MountUnavailable
from runyard.data.fuse.session import MountSession

_TICK_MILLISECONDS = 500
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def start_mounts(
    mounts: Sequence[Mount],
    stores: Mapping[str, StoreAccess],
    rules: NetworkRules,
    cache: Path,
    *,
    life: int,
    log_line: Callable[[str], None],
    logs: Path,
    report: Path,
) -> int:
    """Fork the process that serves all mounts of an attempt; returns its pid when all mounts are ready.

    It serves until the end of `life` (the reading end of a pipe) or SIGTERM. Then it stores what is not stored yet,
    unmounts, writes {"lost": [sentences], "mounts": {name: counts}} to `report`, and exits with 0 if nothing was lost.
    It closes all other descriptors of the caller. Progress and problems are appended to `logs`.

    The caller must have one thread and must not have opened a store. Raises MountUnavailable if FUSE does not work
    here, DataFailed if the data cannot be mounted; then nothing is mounted.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run_mount_process(mounts, stores, rules, cache, life, writing, logs, report)
    os.close(writing)
    with open(reading, encoding="utf-8") as status:
        answer = status.readline()
    if answer == "mounted\n":
        for mount in mounts:
            log_line(f"Mounted {mount.name}.")
        return pid
    os.waitpid(pid, 0)
    raise _error_of(answer)


def serve_mount(
    mount: Mount,
    stores: Mapping[str, StoreAccess],
    rules: NetworkRules,
    cache: Path,
    *,
    life: int,
    ready: Callable[[], None],
    log_line: WriteLine | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Serve one mount in this process until the end of `life`, or SIGTERM, SIGINT or SIGHUP, whose handlers it sets.

    Calls `ready` when the mount is ready. `progress`, if given, gets the bytes read for the first time, in place of log
    lines. Returns the report that `start_mounts` writes.
    """
    session = MountSession(stores, rules, cache, MountLog(log_line or line_writer(sys.stderr.fileno())), progress)
    with _StopSignals() as signals:
        session.mount_all([mount])
        ready()
        return _serve(session, life, signals)


class _StopSignals:
    """Turns signals into a readable descriptor to poll."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def __enter__(self) -> "_StopSignals":
        self._earlier_fd = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._earlier = {number: signal.signal(number, _noted) for number in _STOP_SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._earlier_fd)
        os.close(self.reading)
        os.close(self._writing)


def _noted(_number: int, _frame: object) -> None:
    """Does nothing: Python writes the number to the wake-up descriptor."""


def _serve(session: MountSession, life: int, signals: _StopSignals) -> dict[str, Any]:
    _wait_for_stop(session, life, signals)
    reports: list[dict[str, Any]] = []
    finishing = threading.Thread(target=lambda: reports.append(session.finish()), daemon=True)
    finishing.start()
    while finishing.is_alive():
        finishing.join(_TICK_MILLISECONDS / 1000)
        session.tick()
    if not reports:
        raise DataFailed("The mount ended with an error inside; what was written last may be lost.")
    return reports[0]


def _wait_for_stop(session: MountSession, life: int, signals: _StopSignals) -> None:
    _freeze_garbage_collector()
    waiting = select.poll()
    waiting.register(life, select.POLLIN)
    waiting.register(signals.reading, select.POLLIN)
    while True:
        for descriptor, _ in waiting.poll(_TICK_MILLISECONDS):
            if descriptor == signals.reading or not os.read(life, 4096):
                return
        session.tick()


def _freeze_garbage_collector() -> None:
    """Exclude what exists now from garbage collection: scanning the names of a large dataset would slow down reads."""
    gc.collect()
    gc.freeze()


def _run_mount_process(
    mounts: Sequence[Mount],
    stores: Mapping[str, StoreAccess],
    rules: NetworkRules,
    cache: Path,
    life: int,
    status: int,
    logs: Path,
    report: Path,
) -> NoReturn:
    code = 1
    try:
        os.setsid()
        _reset_signals()
        log = os.open(logs, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        _close_inherited_descriptors({life, status, log}, output=log)
        with _StopSignals() as signals:
            session = MountSession(stores, rules, cache, MountLog(line_writer(log)))
            session.mount_all(mounts)
            os.write(status, b"mounted\n")
            os.close(status)
            status = -1
            result = _serve(session, life, signals)
        _write_report(report, result)
        code = 1 if result["lost"] else 0
    except BaseException as error:
        _report_failure(error, status)
    os._exit(code)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _close_inherited_descriptors(kept: set[int], *, output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for standard, instead in enumerate((nothing, output, output)):
        os.dup2(instead, standard)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                continue  # the descriptor of listdir itself


def _report_failure(error: BaseException, status: int) -> None:
    if not isinstance(error, RunyardError):
        error = DataFailed(f"The mount process failed: {type(error).__name__}: {error}.")
    if status >= 0:
        os.write(status, json.dumps(to_wire(error), default=str).encode() + b"\n")
    else:
        line_writer(2)(str(error))


def _error_of(answer: str) -> RunyardError:
    if not answer:
        return DataFailed("The mount process ended before it had mounted anything.")
    body = json.loads(answer)
    if body["code"] == MountUnavailable.code:
        return MountUnavailable(body["problem"], hint=body["hint"], **body["facts"])
    return from_wire(body)


def _write_report(path: Path, result: dict[str, Any]) -> None:
    with replacement(path) as fd:
        write_all(fd, json.dumps(result).encode())
