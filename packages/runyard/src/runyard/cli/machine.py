import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from runyard.cli.wording import size_in_words
from runyard.model.findings import Finding, Level

LITTLE_DISK_BYTES = 5_000_000_000


def examine(home: Path) -> list[Finding]:
    """Findings for all runs. A BROKEN part stops every run, a missing one only runs that need it."""
    checks: tuple[Callable[[], Finding], ...] = (
        _system,
        lambda: _home(home),
        lambda: _disk(home),
        lambda: _service(home),
        _interpreters,
        _uv,
        lambda: find_programs("compiler", ("cc", "c++"), "Debian: apt-get install build-essential"),
        lambda: find_programs("git", ("git",), "Without git, runs do not record the commit they came from."),
        _mounts,
        _gpus,
    )
    return [check() for check in checks]


def _system() -> Finding:
    found = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, {_memory()} memory"
    if platform.system() != "Linux":
        return Finding("system", Level.BROKEN, found, "Runyard runs on Linux.")
    return Finding("system", Level.OK, found)


def _memory() -> str:
    return size_in_words(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _home(home: Path) -> Finding:
    from runyard.lifecycle.home import file_system_of, is_networked

    folder = _nearest_existing(home)
    kind = file_system_of(folder.resolve(), Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
    if is_networked(kind):
        remedy = "SQLite and locks need a local disk: set RUNYARD_HOME to a folder on one."
        return Finding("home", Level.BROKEN, f"{home} is on a network file system ({kind})", remedy)
    if not os.access(folder, os.W_OK):
        return Finding("home", Level.BROKEN, f"{home} cannot be written", "Set RUNYARD_HOME to a folder of yours.")
    return Finding("home", Level.OK, f"{home} ({kind})" if kind else str(home))


def _nearest_existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())


def _disk(home: Path) -> Finding:
    free = shutil.disk_usage(_nearest_existing(home)).free
    if free < LITTLE_DISK_BYTES:
        return Finding("disk", Level.LACKS, f"{size_in_words(free)} free", "`runyard gc` frees what nothing needs.")
    return Finding("disk", Level.OK, f"{size_in_words(free)} free")


def _service(home: Path) -> Finding:
    from runyard.lifecycle import service_status

    running = service_status(home)
    if running is None:
        return Finding("service", Level.OK, "not running; the SDK starts it when it is needed")
    return Finding("service", Level.OK, f"{running['url']} (pid {running['pid']})")


def _interpreters() -> Finding:
    from runyard.environments.interpreters import discover

    with tempfile.TemporaryDirectory() as folder:
        found = {i.version for i in discover(Path(folder) / "interpreters.json", os.environ)}
    named = ", ".join(".".join(map(str, version)) for version in sorted(found))
    if not {version[:2] for version in found} & {(3, 6), (3, 7)}:
        remedy = "TensorFlow 1.x and Chainer need Python 3.6 or 3.7, for example: pyenv install 3.7"
        return Finding("Python", Level.LACKS, f"{named}; no 3.6 or 3.7", remedy)
    return Finding("Python", Level.OK, named)


def _uv() -> Finding:
    try:
        from uv import find_uv_bin

        found = first_line([find_uv_bin(), "--version"])
    except (ImportError, FileNotFoundError) as error:
        return Finding("uv", Level.BROKEN, str(error), "It comes with runyard: pip install --force-reinstall uv")
    return Finding("uv", Level.OK, found)


def find_programs(part: str, names: tuple[str, ...], remedy: str) -> Finding:
    """OK with the version of the first program, where all are on PATH."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        return Finding(part, Level.LACKS, f"no {', '.join(missing)} on PATH", remedy)
    return Finding(part, Level.OK, first_line([names[0], "--version"]))


def _mounts() -> Finding:
    from runyard.mounting.kernel import why_no_fuse

    reason = why_no_fuse()
    if reason:
        remedy = "Data of object stores and web addresses is downloaded where runs want it mounted."
        return Finding("mounts", Level.LACKS, reason, remedy)
    return Finding("mounts", Level.OK, "FUSE")


def _gpus() -> Finding:
    if shutil.which("nvidia-smi") is None:
        return Finding("GPU", Level.LACKS, "none seen (no nvidia-smi)", "Runs that ask for a GPU use the CPU.")
    listed = output_of(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"])
    if not listed:
        return Finding("GPU", Level.LACKS, "nvidia-smi fails", "Runs that ask for a GPU use the CPU; run: nvidia-smi")
    return Finding("GPU", Level.OK, "; ".join(listed.splitlines()))


def first_line(command: list[str]) -> str:
    return next(iter(output_of(command).splitlines()), "")


def output_of(command: list[str]) -> str:
    """Output of a command; "" where it fails or cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
