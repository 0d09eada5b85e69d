import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from runyard.cli.connection import connect, home, quoted
from runyard.cli.display import size_in_words
from runyard.cli.exits import Exit
from runyard.cli.output import Format, FormatOption, print_json, print_table
from runyard.compute.registry import AnyKind, ComputeKinds
from runyard.core.errors import RunyardError
from runyard.core.records.environments import REFUSE, VIRTUAL_ENVIRONMENT
from runyard.core.records.health import HealthFinding, HealthLevel
from runyard.data.fuse.kernel import why_no_fuse
from runyard.environments.conda.tool import find_conda
from runyard.environments.containers.engine import find_engine
from runyard.environments.interpreters import discover_interpreters
from runyard.node.network.private_network import why_no_private_network
from runyard.node.processes.stack_dump import find_py_spy
from runyard.server.lifecycle import service_status
from runyard.storage.home import file_system_of, is_networked


def doctor(output: FormatOption = Format.TEXT) -> None:
    """Tell what this machine has and lacks. Exit code 1 when runs cannot work here."""
    findings = [*examine_machine(home()), *examine_environments(home()), *examine_distribution()]
    if output is Format.JSON:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = [[f.part, f.level, f.found] for f in findings]
        print_table(["part", "state", "found"], rows, nothing="")
        _print_remedies(findings)
    if any(finding.level is HealthLevel.BROKEN for finding in findings):
        raise typer.Exit(Exit.NO)


def _print_remedies(findings: list[HealthFinding]) -> None:
    for finding in findings:
        if finding.remedy:
            print(f"\n{finding.part}: {finding.remedy}")


LITTLE_DISK_BYTES = 5_000_000_000


def examine_machine(home: Path) -> list[HealthFinding]:
    """Findings for all runs. A BROKEN part stops every run, a missing one only runs that need it."""
    checks: tuple[Callable[[], HealthFinding], ...] = (
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


def _system() -> HealthFinding:
    found = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, {_memory()} memory"
    if platform.system() != "Linux":
        return HealthFinding("system", HealthLevel.BROKEN, found, "Runyard runs on Linux.")
    return HealthFinding("system", HealthLevel.OK, found)


def _memory() -> str:
    return size_in_words(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _home(home: Path) -> HealthFinding:
    folder = _nearest_existing(home)
    kind = file_system_of(folder.resolve(), Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
    if is_networked(kind):
        remedy = "SQLite and locks need a local disk: set RUNYARD_HOME to a folder on one."
        return HealthFinding("home", HealthLevel.BROKEN, f"{home} is on a network file system ({kind})", remedy)
    if not os.access(folder, os.W_OK):
        return HealthFinding(
            "home", HealthLevel.BROKEN, f"{home} cannot be written", "Set RUNYARD_HOME to a folder of yours."
        )
    return HealthFinding("home", HealthLevel.OK, f"{home} ({kind})" if kind else str(home))


def _nearest_existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())


def _disk(home: Path) -> HealthFinding:
    free = shutil.disk_usage(_nearest_existing(home)).free
    if free < LITTLE_DISK_BYTES:
        return HealthFinding(
            "disk", HealthLevel.LACKS, f"{size_in_words(free)} free", "`runyard gc` frees what nothing needs."
        )
    return HealthFinding("disk", HealthLevel.OK, f"{size_in_words(free)} free")


def _service(home: Path) -> HealthFinding:
    running = service_status(home)
    if running is None:
        return HealthFinding("service", HealthLevel.OK, "not running; the SDK starts it when it is needed")
    return HealthFinding("service", HealthLevel.OK, f"{running['url']} (pid {running['pid']})")


def _interpreters() -> HealthFinding:
    with tempfile.TemporaryDirectory() as folder:
        found = {i.version for i in discover_interpreters(Path(folder) / "interpreters.json", os.environ)}
    named = ", ".join(".".join(map(str, version)) for version in sorted(found))
    if not {version[:2] for version in found} & {(3, 6), (3, 7)}:
        remedy = "TensorFlow 1.x and Chainer need Python 3.6 or 3.7, for example: pyenv install 3.7"
        return HealthFinding("Python", HealthLevel.LACKS, f"{named}; no 3.6 or 3.7", remedy)
    return HealthFinding("Python", HealthLevel.OK, named)


def _uv() -> HealthFinding:
    try:
        from uv import find_uv_bin

        found = first_line([find_uv_bin(), "--version"])
    except (ImportError, FileNotFoundError) as error:
        return HealthFinding(
            "uv", HealthLevel.BROKEN, str(error), "It comes with runyard: pip install --force-reinstall uv"
        )
    return HealthFinding("uv", HealthLevel.OK, found)


def find_programs(part: str, names: tuple[str, ...], remedy: str) -> HealthFinding:
    """OK with the version of the first program, where all are on PATH."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        return HealthFinding(part, HealthLevel.LACKS, f"no {', '.join(missing)} on PATH", remedy)
    return HealthFinding(part, HealthLevel.OK, first_line([names[0], "--version"]))


def _mounts() -> HealthFinding:
    reason = why_no_fuse()
    if reason:
        remedy = "Data of object stores and web addresses is downloaded where runs want it mounted."
        return HealthFinding("mounts", HealthLevel.LACKS, reason, remedy)
    return HealthFinding("mounts", HealthLevel.OK, "FUSE")


def _gpus() -> HealthFinding:
    if shutil.which("nvidia-smi") is None:
        return HealthFinding(
            "GPU", HealthLevel.LACKS, "none seen (no nvidia-smi)", "Runs that ask for a GPU use the CPU."
        )
    listed = output_of(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"])
    if not listed:
        return HealthFinding(
            "GPU", HealthLevel.LACKS, "nvidia-smi fails", "Runs that ask for a GPU use the CPU; run: nvidia-smi"
        )
    return HealthFinding("GPU", HealthLevel.OK, "; ".join(listed.splitlines()))


def first_line(command: list[str]) -> str:
    return next(iter(output_of(command).splitlines()), "")


def output_of(command: list[str]) -> str:
    """Output of a command; "" where it fails or cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


APPLIES = {
    REFUSE: "fail with the cause no_engine",
    VIRTUAL_ENVIRONMENT: "get the same packages in a virtual environment, with a warning",
}


def examine_environments(home: Path) -> list[HealthFinding]:
    """Findings for environments: container engine and conda."""
    return [_engine(home), _conda()]


def _engine(home: Path) -> HealthFinding:
    try:
        engine = find_engine(os.environ)
        facts = engine.facts()
    except RunyardError as error:
        chosen = os.environ.get("DOCKER_HOST")
        found = f"{chosen} (DOCKER_HOST) does not answer" if chosen else "neither docker nor podman answers"
        return HealthFinding("container engine", HealthLevel.LACKS, found, f"{_what_applies(home)} {error.hint}")
    return HealthFinding("container engine", HealthLevel.OK, f"{facts.name} {facts.version} at {engine.address}")


def _what_applies(home: Path) -> str:
    """What runs in images do without an engine; by workspace where the service runs."""
    by_setting: dict[str, list[str]] = {}
    for workspace, setting in _settings(home).items():
        by_setting.setdefault(setting, []).append(f"'{workspace}'")
    if not by_setting:
        return f"Runs in images {APPLIES[REFUSE]}."
    parts = [f"in {', '.join(sorted(names))} they {APPLIES[setting]}" for setting, names in sorted(by_setting.items())]
    return f"Runs in images have no engine: {'; '.join(parts)}."


def _settings(home: Path) -> Mapping[str, str]:
    """Setting of each workspace; empty where no service runs, because none is started for this."""
    if service_status(home) is None:
        return {}
    service = connect()
    names = [str(one["name"]) for one in service.get("/workspaces")["workspaces"]]
    return {name: str(service.get(f"/workspaces/{quoted(name)}/packages")["without_engine"]) for name in names}


def _conda() -> HealthFinding:
    tool = find_conda(os.environ)
    if tool is None:
        remedy = (
            "conda packages are installed from the Python package index under the names they have there; one that is "
            "on no such index needs micromamba, mamba or conda on PATH."
        )
        return HealthFinding("conda", HealthLevel.LACKS, "no micromamba, mamba or conda", remedy)
    return HealthFinding("conda", HealthLevel.OK, f"{tool.name} {tool.version()} at {tool.path}")


def examine_distribution() -> list[HealthFinding]:
    """Findings for runs on several nodes: MPI, private network, stack dumps, compute kinds."""
    return [_open_mpi(), _horovod_compilers(), _network(), _stack_dumps(), *_compute_kinds()]


def _open_mpi() -> HealthFinding:
    remedy = (
        "Runs with MPI need it on every node: apt-get install openmpi-bin (Debian, Ubuntu), dnf install openmpi "
        "(Fedora, RHEL), or the conda package openmpi in the run's environment."
    )
    found = find_programs("Open MPI", ("mpirun", "orted"), remedy)
    if found.level is HealthLevel.OK and "Open MPI" not in found.found:
        return HealthFinding("Open MPI", HealthLevel.LACKS, f"mpirun is of another kind: {found.found}", remedy)
    return found


def _horovod_compilers() -> HealthFinding:
    remedy = "Horovod and mpi4py are compiled when a run asks for MPI: apt-get install g++ libopenmpi-dev"
    return find_programs("MPI compilers", ("mpicxx", "g++"), remedy)


def _network() -> HealthFinding:
    reason = why_no_private_network()
    if reason:
        remedy = f"Distributed runs' servers listen on every interface of this machine. {reason}"
        return HealthFinding("network of runs", HealthLevel.LACKS, "the machine's own", remedy)
    return HealthFinding("network of runs", HealthLevel.OK, "private: their servers cannot be reached from outside")


def _stack_dumps() -> HealthFinding:
    program = find_py_spy()
    if program is None:
        remedy = "A run over its time limit cannot say where it hung. Run: pip install py-spy"
        return HealthFinding("stack dumps", HealthLevel.LACKS, "no py-spy", remedy)
    if not output_of([program, "dump", "--pid", str(os.getpid())]):
        remedy = "Let processes of one user look at one another: sysctl kernel.yama.ptrace_scope=0, or CAP_SYS_PTRACE."
        return HealthFinding("stack dumps", HealthLevel.LACKS, "py-spy may not look at processes here (ptrace)", remedy)
    return HealthFinding("stack dumps", HealthLevel.OK, first_line([program, "--version"]))


def _compute_kinds() -> list[HealthFinding]:
    kinds = ComputeKinds()
    found = [finding for kind in kinds.load_all().values() for finding in _findings_of(kind)]
    remedy = "Repair or remove the package that brings it: `runyard compute kinds` lists all."
    left_out = [
        HealthFinding(f"compute {name}", HealthLevel.LACKS, why, remedy) for name, why in kinds.left_out().items()
    ]
    return [*found, *left_out]


def _findings_of(kind: AnyKind) -> Sequence[HealthFinding]:
    try:
        return kind.findings()
    except Exception as error:  # a broken plug-in must not hide the other findings
        found = f"cannot say what it finds here: {type(error).__name__}: {error}"
        return [
            HealthFinding(
                f"compute {kind.name}", HealthLevel.LACKS, found, "Repair or remove the package that brings it."
            )
        ]
