"""What is compiled against the packages beside it: with which settings, and from which lines of source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runyard.planning.frameworks import Numbers
from runyard.planning.packages import normal, requirement_name


@dataclass(frozen=True)
class SourceEdit:
    """A line that today's compilers or frameworks refuse, in a file of the source package."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class SourceBuild:
    """How one package is built in an environment that holds all it is built against."""

    requirement: str
    """With an exact version."""
    against: tuple[str, ...] = ()
    """The packages that the result fits, with their versions."""
    variables: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[SourceEdit, ...] = ()
    needs_mpi: bool = False
    origin: tuple[str, ...] = ()
    """What tells apart the indexes that its source may come from: a release of the same name is another's there."""


@dataclass(frozen=True)
class Unsuited:
    """Why a package that was asked for without a version is left out."""

    why: str


@dataclass(frozen=True)
class _Framework:
    names: tuple[str, ...]
    word: str
    """Horovod's name for it in its variables."""
    releases: tuple[tuple[Numbers, str], ...]
    """From which version of the framework on which release of Horovod suits it."""


NONE = ""
HOROVOD = "horovod"
BUILD_COMPANY = (
    "pip",
    "wheel",
    "setuptools<60; python_version < '3.8'",
    "setuptools<81; python_version >= '3.8'",
)
HOROVOD_COMPANY = ("cffi", "psutil", "cloudpickle", "pyyaml", "six", "packaging")
FRAMEWORKS = (
    _Framework(
        ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "intel-tensorflow", "tf-nightly"),
        "TENSORFLOW",
        # Keras 3, which came with 2.16, and headers that moved later are more than the last release can take.
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


def source_build(requirement: str, lock: str) -> SourceBuild | Unsuited:
    """How to build what is asked for into the environment of that lock; `requirement` has an exact version or none."""
    if requirement_name(requirement) != HOROVOD:
        return SourceBuild(requirement, needs_mpi=True)
    found = _frameworks_of(lock)
    if requirement == HOROVOD:
        suited = _suited(found)
        if not suited:
            beside = " and ".join(f"{name} {version}" for _, name, version in found) or "no TensorFlow and no torch"
            return Unsuited(
                f"Horovod is left out: no release of it is known to work with {beside}. MPI itself works without it, "
                "and so do the framework's own ways (tf.distribute, torch.distributed). To have one built all the same "
                "name it, as in pip_packages=['horovod==0.28.1']."
            )
        requirement = f"{HOROVOD}=={suited}"
    return _horovod(requirement, found)


def company_of(builds: Sequence[str]) -> tuple[str, ...]:
    """What must be in the environment for these to be built there, and to run."""
    if not builds:
        return ()
    return (*BUILD_COMPANY, *(HOROVOD_COMPANY if HOROVOD in map(requirement_name, builds) else ()))


def wants_horovod(packages: Sequence[str]) -> bool:
    """Whether one of the packages is a framework that Horovod trains with over MPI."""
    known = {name for framework in FRAMEWORKS if framework.releases for name in framework.names}
    return any(requirement_name(line) in known for line in packages)


def _horovod(requirement: str, found: Sequence[tuple[_Framework, str, str]]) -> SourceBuild:
    there = {framework.word for framework, _, _ in found}
    variables = {f"HOROVOD_{'WITH' if f.word in there else 'WITHOUT'}_{f.word}": "1" for f in FRAMEWORKS}
    variables |= {"HOROVOD_WITH_MPI": "1", "HOROVOD_WITHOUT_GLOO": "1", "HOROVOD_CPU_OPERATIONS": "MPI"}
    # CMake 4 refuses the files of older releases unless it is told to read them as it once did.
    variables["CMAKE_POLICY_VERSION_MINIMUM"] = "3.5"
    torch = next((_numbers(version) for framework, _, version in found if framework.word == "PYTORCH"), None)
    if torch is not None:
        # Old sources relied on other headers to include this one. Releases before CMake compile by CFLAGS alone.
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
    """The first framework decides; '' where none of its releases is known to work."""
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
    return normal(name.partition("[")[0].strip()), version.partition(";")[0].strip()


def _numbers(version: str) -> Numbers:
    parts = version.partition("+")[0].split(".")[:2]
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in parts)
