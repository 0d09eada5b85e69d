import re

from runyard.planning.frameworks import Recipe
from runyard.planning.packages import NAME, Wishes, has_version, requirement_name

# On PyPI these names are placeholders that point to the right name.
RIGHT_NAMES = {"sklearn": "scikit-learn", "skimage": "scikit-image", "pytorch": "torch", "pil": "pillow"}
# The GPU package of CNTK cannot be imported without a GPU driver.
WITHOUT_GPU = {"cntk-gpu": "cntk", "tensorflow-gpu": "tensorflow"}
MPI4PY_BEFORE_OPEN_MPI_4 = re.compile(r"mpi4py *== *3\.0\.[0-2]")
TENSORFLOW_RELEASE = re.compile(r"== *(\d+)\.(\d+)")
FIRST_WITH_CUDA_EXTRA = (2, 14)
CUPY = re.compile(r"cupy(-cuda\w+)?")
WITHOUT_OWN_VERSIONS = {"sklearn", "skimage", "pil"}


def replace_dead_names(requested: Wishes, *, gpu_present: bool) -> None:
    """Replace packages that cannot be installed or used on this machine, with a note for each."""
    if not gpu_present:
        _leave_out_cupy(requested)
    replaced = [_replacement(line, gpu_present) for line in requested.requirements]
    for line, new in zip(requested.requirements, replaced, strict=True):
        if line != new:
            requested.notes.append(f"'{line}' is installed as '{new}'{_reason(line)}.")
    requested.requirements = replaced


def _leave_out_cupy(requested: Wishes) -> None:
    """Leave out CuPy: it cannot be imported without a GPU, and old releases need CUDA to build."""
    for line in [line for line in requested.requirements if CUPY.fullmatch(requirement_name(line))]:
        requested.requirements.remove(line)
        requested.notes.append(f"'{line}' is left out: there is no GPU here.")


def pin_framework(requested: Wishes, chosen: Recipe, *, by: str) -> None:
    """Pin the framework's package to the recipe's version if the user names none. `by` is for the note."""
    for at, line in enumerate(requested.requirements):
        if requirement_name(line) in chosen.replaced_by and not has_version(line):
            requested.requirements[at] = chosen.packages[0]
            requested.notes.append(f"{by} makes '{line}' of your environment '{chosen.packages[0]}'.")


def _replacement(line: str, gpu_present: bool) -> str:
    name = requirement_name(line)
    if name in RIGHT_NAMES:
        return RIGHT_NAMES[name] + ("" if name in WITHOUT_OWN_VERSIONS else _after_name(line))
    if name == "tensorflow-gpu" and not has_version(line):
        return ("tensorflow[and-cuda]" if gpu_present else "tensorflow-cpu") + _after_name(line)
    if name in WITHOUT_GPU and not gpu_present:
        return WITHOUT_GPU[name] + _after_name(line)
    if name == "tensorflow-gpu" and _is_after_tensorflow_gpu(line):
        return "tensorflow[and-cuda]" + _after_name(line)
    if MPI4PY_BEFORE_OPEN_MPI_4.fullmatch(line):
        return "mpi4py==3.0.3"
    return line


def _is_after_tensorflow_gpu(line: str) -> bool:
    """Whether the release has no tensorflow-gpu package; CUDA is an extra of tensorflow since then."""
    found = TENSORFLOW_RELEASE.search(line)
    return found is not None and (int(found.group(1)), int(found.group(2))) >= FIRST_WITH_CUDA_EXTRA


def _after_name(line: str) -> str:
    found = NAME.match(line)
    assert found is not None
    return re.sub(r"^\s*\[[^\]]*\]", "", line[found.end(1) :])


def _reason(line: str) -> str:
    if requirement_name(line) in RIGHT_NAMES:
        return ""
    if requirement_name(line) == "mpi4py":
        return ", the release of that series that can be built against today's MPI"
    goes_on = requirement_name(line) == "tensorflow-gpu" and (not has_version(line) or _is_after_tensorflow_gpu(line))
    return ", the name under which it goes on" if goes_on else ": there is no GPU here"
