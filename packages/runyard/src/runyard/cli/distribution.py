import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runyard.cli.machine import find_programs, first_line, output_of
from runyard.model.findings import Finding, Level

if TYPE_CHECKING:
    from runyard.compute.registry import AnyKind


def examine_distribution() -> list[Finding]:
    """Findings for runs on several nodes: MPI, private network, stack dumps, compute kinds."""
    return [_open_mpi(), _horovod_compilers(), _network(), _stack_dumps(), *_compute_kinds()]


def _open_mpi() -> Finding:
    remedy = (
        "Runs with MPI need it on every node: apt-get install openmpi-bin (Debian, Ubuntu), dnf install openmpi "
        "(Fedora, RHEL), or the conda package openmpi in the run's environment."
    )
    found = find_programs("Open MPI", ("mpirun", "orted"), remedy)
    if found.level is Level.OK and "Open MPI" not in found.found:
        return Finding("Open MPI", Level.LACKS, f"mpirun is of another kind: {found.found}", remedy)
    return found


def _horovod_compilers() -> Finding:
    remedy = "Horovod and mpi4py are compiled when a run asks for MPI: apt-get install g++ libopenmpi-dev"
    return find_programs("MPI compilers", ("mpicxx", "g++"), remedy)


def _network() -> Finding:
    from runyard.node.network import why_no_private_network

    reason = why_no_private_network()
    if reason:
        remedy = f"Distributed runs' servers listen on every interface of this machine. {reason}"
        return Finding("network of runs", Level.LACKS, "the machine's own", remedy)
    return Finding("network of runs", Level.OK, "private: their servers cannot be reached from outside")


def _stack_dumps() -> Finding:
    from runyard.node.stacks import find_py_spy

    program = find_py_spy()
    if program is None:
        remedy = "A run over its time limit cannot say where it hung. Run: pip install py-spy"
        return Finding("stack dumps", Level.LACKS, "no py-spy", remedy)
    if not output_of([program, "dump", "--pid", str(os.getpid())]):
        remedy = "Let processes of one user look at one another: sysctl kernel.yama.ptrace_scope=0, or CAP_SYS_PTRACE."
        return Finding("stack dumps", Level.LACKS, "py-spy may not look at processes here (ptrace)", remedy)
    return Finding("stack dumps", Level.OK, first_line([program, "--version"]))


def _compute_kinds() -> list[Finding]:
    from runyard.compute.registry import ComputeKinds

    kinds = ComputeKinds()
    found = [finding for kind in kinds.load_all().values() for finding in _findings_of(kind)]
    remedy = "Repair or remove the package that brings it: `runyard compute kinds` lists all."
    left_out = [Finding(f"compute {name}", Level.LACKS, why, remedy) for name, why in kinds.left_out().items()]
    return [*found, *left_out]


def _findings_of(kind: "AnyKind") -> Sequence[Finding]:
    try:
        return kind.findings()
    except Exception as error:  # a broken plug-in must not hide the other findings
        found = f"cannot say what it finds here: {type(error).__name__}: {error}"
        return [Finding(f"compute {kind.name}", Level.LACKS, found, "Repair or remove the package that brings it.")]
