import shutil
import subprocess
from pathlib import Path

from runyard.planning.gpus import Gpu

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
