"""Root file systems for base images, made without a public registry: Debian by debootstrap, from the mirror of this
machine's apt. Each is made once per user and cached below XDG_CACHE_HOME."""

import fcntl
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PLAIN, WITH_PYTHON, WITH_MPI, FOR_SERVERS = "plain", "python", "mpi", "server"
_PACKAGES = {
    PLAIN: (),
    WITH_PYTHON: ("python3",),
    WITH_MPI: ("openmpi-bin",),
    FOR_SERVERS: ("python3-venv", "postgresql", "systemd"),
}
_MAKING = 1
"""Version of the recipe: raise it when the images are made differently."""
_LEFT_OUT = ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man")


def debian_archive(kind: str) -> Path:
    """Path of a tar of a minimal system of this machine's release, with the packages of `kind`. Only WITH_PYTHON and
    FOR_SERVERS have a Python."""
    with _alone() as folder:
        archive = folder / f"{_release()}-{kind}-{_MAKING}.tar"
        if not archive.exists():
            _make(kind, archive)
        return archive


def _make(kind: str, archive: Path) -> None:
    mirror, components = _mirror(_release())
    work = Path(tempfile.mkdtemp(dir=archive.parent))
    try:
        root, packages = work / "root", archive.parent / "packages"
        packages.mkdir(exist_ok=True)
        added = [f"--include={','.join(_PACKAGES[kind])}"] if _PACKAGES[kind] else []
        sources = [f"--cache-dir={packages}", f"--components={','.join(components)}"]
        _run("debootstrap", "--variant=minbase", *sources, *added, _release(), str(root), mirror)
        left_out = [f"--exclude=./{folder}/*" for folder in _LEFT_OUT]
        _run("tar", "--create", f"--file={work}/made.tar", f"--directory={root}", *left_out, ".")
        (work / "made.tar").rename(archive)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _release() -> str:
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def _mirror(release: str) -> tuple[str, tuple[str, ...]]:
    """Mirror and components from which apt gets a release. Raises RuntimeError."""
    asked = ["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI) $(COMPONENT)", "Created-By: Packages"]
    lines = [line.split() for line in _run(*asked).splitlines()]
    found = [(address, component) for of_release, address, component in lines if of_release == release]
    if not found:
        raise RuntimeError(f"apt on this machine has no source of {release} to make a base image from.")
    address = found[0][0]
    return address, tuple(dict.fromkeys(component for at, component in found if at == address))


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


@contextmanager
def _alone() -> Iterator[Path]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runyard-tests"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield cache
