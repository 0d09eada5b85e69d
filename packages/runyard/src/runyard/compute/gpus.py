import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.compute.vm_sizes import node_resources
from runyard.core.definitions.run import Estimator, RunDefinition
from runyard.core.errors import InvalidArgument

# Newest compute capability that the public builds have kernels for, up to and including a version.
# A GPU of the same major number and a higher minor runs them too; one of a higher major does not.
_NEWEST: Mapping[str, tuple[tuple[tuple[int, int], tuple[int, int]], ...]] = {
    "TensorFlow": (((1, 12), (7, 0)), ((2, 3), (7, 5)), ((2, 10), (8, 6)), ((2, 17), (9, 0)), ((2, 99), (12, 0))),
    "PyTorch": (((1, 0), (7, 0)), ((1, 6), (7, 5)), ((1, 13), (8, 6)), ((2, 6), (9, 0)), ((2, 99), (12, 0))),
    "Chainer": (((7, 99), (7, 5)),),
}


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine. `index` is its value in CUDA_VISIBLE_DEVICES."""

    index: str
    name: str
    capability: tuple[int, int]
    memory_mb: int = 0


@dataclass(frozen=True)
class GpuShare:
    """GPUs of each node of an allocation. All are empty if the run takes the CPU; `notice` says why, if GPUs were asked
    for."""

    per_node: tuple[tuple[str, ...], ...]
    notice: str = ""

    @property
    def has_gpus(self) -> bool:
        return any(self.per_node)


def share_gpus(
    definition: RunDefinition, gpus: Sequence[Gpu], *, slots: Sequence[int], most_slots: int, vm_size: str = ""
) -> GpuShare:
    """Share the machine's GPUs among the nodes of an allocation: all nodes get some, or none does.

    `slots`: numbers of its nodes among the `most_slots` of its cluster, whose nodes have `vm_size`.
    """
    estimator = definition.runyard.estimator
    on_cpu = ((),) * len(slots)
    if estimator.use_gpu is False:
        return GpuShare(on_cpu)
    if len(gpus) < len(slots):
        asked = _asked_by(estimator, vm_size)
        return GpuShare(on_cpu, _too_few(asked, len(slots), len(gpus)) if asked else "")
    blind = _undriven(estimator, gpus)
    if blind is not None:
        return GpuShare(on_cpu, _cannot_drive(estimator, blind))
    each = max(1, len(gpus) // max(most_slots, len(slots)))
    places = slots if max(slots) * each + each <= len(gpus) else range(len(slots))
    return GpuShare(tuple(tuple(gpu.index for gpu in gpus[place * each : (place + 1) * each]) for place in places))


def given_gpus(definition: RunDefinition, per_node: Sequence[Sequence[str]], vm_size: str = "") -> GpuShare:
    """Use the GPUs that a pool gave to the nodes: all nodes have some, or the whole run takes the CPU."""
    estimator = definition.runyard.estimator
    on_cpu = ((),) * len(per_node)
    if estimator.use_gpu is False:
        return GpuShare(on_cpu)
    if all(per_node):
        return GpuShare(tuple(map(tuple, per_node)))
    lacking = sum(not gpus for gpus in per_node)
    asked = _asked_by(estimator, vm_size)
    notice = f"Runyard: {asked}, but {lacking} of {len(per_node)} nodes have no GPU; the whole run takes the CPU."
    return GpuShare(on_cpu, notice if asked else "")


def _asked_by(estimator: Estimator, vm_size: str) -> str:
    """Argument that asks for a GPU; "" for none."""
    if estimator.use_gpu:
        return "use_gpu=True"
    try:
        return f"vm_size={vm_size!r}" if vm_size and node_resources(vm_size).gpu else ""
    except InvalidArgument:  # a size of the operator's own table
        return ""


def _undriven(estimator: Estimator, gpus: Sequence[Gpu]) -> Gpu | None:
    newest = _newest_capability(estimator.framework, estimator.version)
    return next((gpu for gpu in gpus if newest is not None and gpu.capability[0] > newest[0]), None)


def _newest_capability(framework: str, version: str) -> tuple[int, int] | None:
    numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    if len(numbers) < 2:
        return None
    minor = (numbers[0], numbers[1])
    return next((newest for last, newest in _NEWEST.get(framework, ()) if minor <= last), None)


def _too_few(asked: str, wanted: int, present: int) -> str:
    found = "no GPU" if present == 0 else f"only {present} of the {wanted} GPUs this run needs"
    return f"Runyard: {asked}, but this machine has {found}; the whole run takes the CPU."


def _cannot_drive(estimator: Estimator, gpu: Gpu) -> str:
    major, minor = gpu.capability
    return (
        f"Runyard: {estimator.framework} {estimator.version} cannot drive the GPU '{gpu.name}' "
        f"(compute capability {major}.{minor}); the whole run takes the CPU."
    )


_QUERY = ["--query-gpu=index,name,compute_cap,memory.total", "--format=csv,noheader,nounits"]
_DRIVER = Path("/proc/driver/nvidia/gpus")


def find_gpus() -> tuple[Gpu, ...]:
    """NVIDIA GPUs of this machine, by nvidia-smi. Without a driver nothing is started."""
    program = shutil.which("nvidia-smi")
    if not _DRIVER.is_dir() or program is None:
        return ()
    try:
        found = subprocess.run([program, *_QUERY], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(_gpu(line) for line in found.stdout.splitlines() if line.count(",") == 3)


def _gpu(line: str) -> Gpu:
    index, name, capability, memory_mb = (field.strip() for field in line.split(","))
    major, _, minor = capability.partition(".")
    return Gpu(index, name, (int(major), int(minor or 0)), int(memory_mb))
