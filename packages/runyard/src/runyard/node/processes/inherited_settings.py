import os
import resource
from pathlib import Path

_LIMITS = sorted({number for name, number in vars(resource).items() if name.startswith("RLIMIT_")})
_FILES = (Path("/proc/self/oom_score_adj"), Path("/proc/self/cgroup"))


def inherited_settings() -> tuple[object, ...]:
    """Settings of this process that its script can change by the pid, and that its next children inherit: limits,
    priority, scheduling, CPUs, OOM score and cgroup."""
    limits = [resource.getrlimit(number) for number in _LIMITS]
    priority, policy = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)
    return limits, priority, policy, os.sched_getaffinity(0), *map(_content, _FILES)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # no such file on this kernel, or no descriptor is left: then a limit differs
        return b""
