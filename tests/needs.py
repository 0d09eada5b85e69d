"""A plug-in for pytest: tests say which program of the machine they need.

`@pytest.mark.needs("mpi")` runs a test where Open MPI is installed. Elsewhere the test waits: it counts as skipped, and
a table at the end names each absent need, how many tests wait for it and the command that brings it. With CI set
an absent need fails the test, so that CI leaves out nothing.
"""

import os
import re
import shutil
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pytest

from runyard.data.fuse import kernel
from runyard.environments.interpreters import discover_interpreters
from runyard.node.network.private_network import why_no_private_network
from tests.data.mounting.children import NOBODY, ended_well

WAITS_FOR = "needs "
SYSTEM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"


@dataclass(frozen=True)
class Need:
    title: str
    brought_by: str
    is_here: Callable[[], bool]


def on_path(*programs: str) -> Callable[[], bool]:
    return lambda: all(map(shutil.which, programs))


@cache
def interpreters() -> dict[tuple[int, int], Path]:
    """One CPython for each minor version from 3.6 on, found as the product finds them."""
    found: dict[tuple[int, int], Path] = {}
    with tempfile.TemporaryDirectory() as folder:
        for interpreter in discover_interpreters(Path(folder, "known.json"), os.environ):
            found.setdefault(interpreter.version[:2], Path(interpreter.path))
    return dict(sorted(found.items()))


def _can_compile() -> bool:
    return on_path("c++")() and Path(sysconfig.get_paths()["include"], "Python.h").is_file()


def _may_all_open_devices() -> bool:
    devices = ("/dev/fuse", "/dev/net/tun")
    return all(os.path.exists(device) and os.stat(device).st_mode & 0o006 == 0o006 for device in devices)


@cache
def _may_unshare(user: int) -> bool:
    """Whether a process of that user (0: this one) may have mounts of its own."""
    return ended_well(lambda: kernel.unshare_mounts(), user=user if os.geteuid() == 0 else 0)


NEEDS = {
    "git": Need("git", "apt-get install git", on_path("git")),
    "curl": Need("curl", "apt-get install curl", on_path("curl")),
    "nginx": Need("nginx", "apt-get install nginx-light", lambda: shutil.which("nginx", path=SYSTEM_PATH) is not None),
    "mpi": Need("Open MPI", "apt-get install openmpi-bin", on_path("mpirun", "orted")),
    "compiler": Need("a C++ compiler and Python's headers", "apt-get install g++ python3-dev", _can_compile),
    "fusermount3": Need("fusermount3", "apt-get install fuse3", on_path("fusermount3")),
    "user devices": Need(
        "devices open to every user", "chmod 666 /dev/fuse /dev/net/tun, as udev does", _may_all_open_devices
    ),
    "private network": Need("pasta", "apt-get install passt", lambda: why_no_private_network({}) == ""),
    "mount namespace": Need(
        "a mount namespace", "a machine or container that allows one; a chroot does not", partial(_may_unshare, 0)
    ),
    "user namespace": Need(
        "a user namespace", "a machine or container that allows one; a chroot does not", partial(_may_unshare, NOBODY)
    ),
    "root": Need("root", "run it as root", lambda: os.geteuid() == 0),
    **{
        f"python3.{minor}": Need(
            f"Python 3.{minor}", f"pyenv install 3.{minor}", lambda minor=minor: (3, minor) in interpreters()
        )
        for minor in (6, 7, 13)
    },
}


def interpreter(version: str) -> Path:
    """A Python such as "3.6"; lets the running test wait where there is none."""
    require(f"python{version}")
    return interpreters()[int(version.split(".")[0]), int(version.split(".")[1])]


def require(name: str) -> None:
    """Let the running test wait, or fail in CI, where the machine does not have this."""
    need = NEEDS[name]
    if not need.is_here():
        why = f"{WAITS_FOR}{need.title}: {need.brought_by}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(why)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(name): waits where the machine lacks this; see tests/needs.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    unknown = {name for item in items for mark in item.iter_markers("needs") for name in mark.args} - set(NEEDS)
    if unknown:
        raise pytest.UsageError(f"tests/needs.py has no {', '.join(sorted(unknown))}. It has: {', '.join(NEEDS)}.")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            require(name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    waiting = Counter(found[1] for report in terminalreporter.getreports("skipped") if (found := _waits(report)))
    if not waiting:
        return
    absent = [need for need in NEEDS.values() if need.title in waiting]
    width = max(len(need.title) for need in absent)
    terminalreporter.section("not run: this machine lacks what they need")
    terminalreporter.line(f"TESTS  {'WAIT FOR':{width}}  WHICH COMES BY")
    for need in absent:
        terminalreporter.line(f"{waiting[need.title]:5}  {need.title:{width}}  {need.brought_by}")


def _waits(report: pytest.TestReport) -> re.Match[str] | None:
    """The need that a skipped test named, as `require` wrote it."""
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    return re.search(rf"{WAITS_FOR}(.+?): ", said)
