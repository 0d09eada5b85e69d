"""Packages that are compiled against others of the environment, such as Horovod: versions, settings, source edits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runyard.environments.planning.frameworks import Numbers
from runyard.environments.planning.packages import normalized_name, requirement_name


@dataclass(frozen=True)
class SourceEdit:
    """Replacement of a line that current compilers or frameworks reject, in a file of the source package."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class SourceBuild:
    """How to build one package in an environment that has its dependencies."""

    requirement: str
    """Requirement with an exact version."""
    against: tuple[str, ...] = ()
    """Exact requirements that the wheel is compiled against."""
    variables: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[SourceEdit, ...] = ()
    needs_mpi: bool = False
    origin: tuple[str, ...] = ()
    """Sources of the package, as part of the wheel's key: another index may have another package of that name."""


@dataclass(frozen=True)
class SkippedBuild:
    """A package without a version that is left out; `why` is for the log."""

    why: str


@dataclass(frozen=True)
class _Framework:
    names: tuple[str, ...]
    word: str
    """The framework's name in Horovod's variables."""
    releases: tuple[tuple[Numbers, str], ...]
    """(first version of the framework, release of Horovod that works with it)."""


NONE = ""
HOROVOD = "horovod"
BUILD_DEPENDENCIES = (
    "pip",
    "wheel",
    "setuptools<60; python_version < '3.8'",
    "setuptools<81; python_version >= '3.8'",
)
HOROVOD_DEPENDENCIES = ("cffi", "psutil", "cloudpickle", "pyyaml", "six", "packaging")
FRAMEWORKS = (
    _Framework(
        ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "intel-tensorflow", "tf-nightly"),
        "TENSORFLOW",
        # The last release does not support Keras 3, which came with 2.16.
        (((1, 10), "0.16.1"), ((1, 14), "0.19.5"), ((2, 3), "0.28.1"), ((2, 16), NONE)),
    ),
    _Framework(("torch",), "PYTORCH", (((1, 0), "0.16.1"), ((1, 2), "0.19.5"), ((1, 7), "0.28.1"))),
    _Framework(("mxnet", "mxnet-mkl"), "MXNET", ()),
)
TORCH_WANTS_CXX17 = (2, 1)
BUILT_WITH_CMAKE = (0, 20)
CXX17 = tuple(
    SourceEdit(file, "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)")
    for file in ("CMakeLists.txt", "horovod/torch/CMakeLists.txt")
)


def source_build(requirement: str, lock: str) -> SourceBuild | SkippedBuild:
    """How to build a requirement, with an exact version or none, against the packages of the lock."""
    if requirement_name(requirement) != HOROVOD:
        return SourceBuild(requirement, needs_mpi=True)
    found = _frameworks_of(lock)
    if requirement == HOROVOD:
        suited = _suited(found)
        if not suited:
            beside = " and ".join(f"{name} {version}" for _, name, version in found) or "no TensorFlow and no torch"
            return SkippedBuild(
                f"Horovod is left out: no release of it is known to work with {beside}. MPI itself works without it, "
                "and so do the framework's own ways (tf.distribute, torch.distributed). To have one built all the same "
                "name it, as in pip_packages=['horovod==0.28.1']."
            )
        requirement = f"{HOROVOD}=={suited}"
    return _horovod(requirement, found)


def build_dependencies(builds: Sequence[str]) -> tuple[str, ...]:
    """Packages that must be in the environment to build and run these."""
    if not builds:
        return ()
    return (*BUILD_DEPENDENCIES, *(HOROVOD_DEPENDENCIES if HOROVOD in map(requirement_name, builds) else ()))


def wants_horovod(packages: Sequence[str]) -> bool:
    """Whether one of the packages is a framework that Horovod supports."""
    known = {name for framework in FRAMEWORKS if framework.releases for name in framework.names}
    return any(requirement_name(line) in known for line in packages)


def _horovod(requirement: str, found: Sequence[tuple[_Framework, str, str]]) -> SourceBuild:
    there = {framework.word for framework, _, _ in found}
    variables = {f"HOROVOD_{'WITH' if f.word in there else 'WITHOUT'}_{f.word}": "1" for f in FRAMEWORKS}
    variables |= {"HOROVOD_WITH_MPI": "1", "HOROVOD_WITHOUT_GLOO": "1", "HOROVOD_CPU_OPERATIONS": "MPI"}
    # CMake 4 rejects the files of older releases without this.
    variables["CMAKE_POLICY_VERSION_MINIMUM"] = "3.5"
    torch = next((_numbers(version) for framework, _, version in found if framework.word == "PYTORCH"), None)
    if torch is not None:
        # Old sources rely on other headers to include this one. Releases that do not use CMake read only CFLAGS.
        flags = "CXXFLAGS" if _numbers(requirement.partition("==")[2]) >= BUILT_WITH_CMAKE else "CFLAGS"
        variables[flags] = "-include stdexcept"
    return SourceBuild(
        requirement,
        against=tuple(f"{name}=={version}" for _, name, version in found),
        variables=variables,
        edits=CXX17 if torch is not None and torch >= TORCH_WANTS_CXX17 else (),
        needs_mpi=True,
    )


def _suited(found: Sequence[tuple[_Framework, str, str]]) -> str:
    """Release of Horovod for the first framework that has one; '' if none is known to work."""
    for framework, _, version in found:
        fitting = [release for since, release in framework.releases if since <= _numbers(version)]
        if fitting:
            return fitting[-1]
    return ""


def _frameworks_of(lock: str) -> list[tuple[_Framework, str, str]]:
    locked = dict(_locked(line) for line in lock.splitlines() if "==" in line)
    return [(framework, name, locked[name]) for framework in FRAMEWORKS for name in framework.names if name in locked]


def _locked(line: str) -> tuple[str, str]:
    name, _, version = line.partition("==")
    return normalized_name(name.partition("[")[0].strip()), version.partition(";")[0].strip()


def _numbers(version: str) -> Numbers:
    parts = version.partition("+")[0].split(".")[:2]
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in parts)
