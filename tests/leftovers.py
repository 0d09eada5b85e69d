"""A plug-in for pytest: a session that leaves a mount, a process or a temporary file behind fails, and names it.

Others may work on the machine meanwhile, so only what names a folder of the session counts. One of those is where
`tempfile` makes its files during the session, here and in every process that inherits our variables. Processes that
pytest-xdist starts to share the tests work below both folders; the session that started them looks once, at its end.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.mount_tables import mounted_anywhere
from tests.processes import pids, words_of

FOLDERS = pytest.StashKey[tuple[Path, Path]]()
LEFT = pytest.StashKey[list[str]]()
RESOURCE_TRACKER = b"multiprocessing.resource_tracker"
"""Python's own helper, which ends with this process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ending-seconds", type=float, default=60.0, help="how long what was asked to stop may take")


def pytest_sessionstart(session: pytest.Session) -> None:
    if _shares_a_session(session.config):
        return
    own = session.config._tmp_path_factory.getbasetemp()  # before the folder of all others changes
    temporary = Path(tempfile.mkdtemp(prefix="runyard-tests-"))
    temporary.chmod(0o1777)  # as /tmp: some tests are another user
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    session.config.stash[FOLDERS] = own, temporary


@pytest.hookimpl(trylast=True)  # the processes of pytest-xdist have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _shares_a_session(session.config):
        return
    own, temporary = session.config.stash[FOLDERS]
    left = _still_there((own, temporary), session.config.getoption("--ending-seconds"))
    left += [f"temporary file {path}" for path in sorted(temporary.iterdir())]
    session.config.stash[LEFT] = left
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if not _mounts((temporary,)):
        shutil.rmtree(temporary, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left := config.stash.get(LEFT, []):
        terminalreporter.section("left behind by this session", red=True)
        for line in left:
            terminalreporter.line(line)


def _shares_a_session(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _still_there(folders: tuple[Path, ...], seconds: float) -> list[str]:
    ends_at = time.monotonic() + seconds
    while (left := [*_mounts(folders), *_processes(folders)]) and time.monotonic() < ends_at:
        time.sleep(0.05)
    return left


def _mounts(folders: Iterable[Path]) -> list[str]:
    return [f"mount {line}" for folder in folders for line in mounted_anywhere(folder)]


def _processes(folders: Iterable[Path]) -> Iterator[str]:
    needles, spared = [os.fsencode(folder) for folder in folders], _this_and_its_parents()
    for pid in pids():
        if pid not in spared and any(needle in text for text in words_of(pid) for needle in needles):
            command = next(words_of(pid), b"")
            if RESOURCE_TRACKER not in command:
                yield f"process {pid}: {command.replace(bytes(1), b' ').decode(errors='replace')}"


def _this_and_its_parents() -> set[int]:
    found, pid = set(), os.getpid()
    while pid:
        found.add(pid)
        pid = int(Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1])
    return found
