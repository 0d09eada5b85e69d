"""Package lists of users (pip, conda, azureml), translated to requirements of the Python package index."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import CondaSpec, EnvironmentSpec
from runyard.environments.planning.conda_packages import (
    BOUND_TO_MPI,
    CondaLine,
    check_channels,
    is_not_on_pypi,
    is_unneeded,
    parse_conda_line,
    pypi_name,
)
from runyard.environments.planning.frameworks import Recipe

AZUREML = re.compile(r"(azureml|azure-ml)(-[a-z0-9-]+)?")
# Dependencies of these packages that scripts rely on, by extra; "" is without an extra.
AZUREML_BRINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "azureml-dataprep": {"pandas": ("pandas", "pyarrow"), "fuse": (), "parquet": ("pyarrow",)},
    "azureml-dataset-runtime": {
        "": ("pyarrow",),
        "pandas": ("pandas", "pyarrow"),
        "fuse": (),
        "parquet": ("pyarrow",),
        "scikit-learn": ("scikit-learn",),
    },
    "azureml-sdk": {"": ("pandas", "pyarrow"), "notebooks": (), "automl": ("pandas", "scikit-learn")},
    "azureml-train-automl": {"": ("pandas", "scikit-learn")},
    "azureml-interpret": {"": ("pandas", "scikit-learn")},
    "azureml-opendatasets": {"": ("pandas", "pyarrow")},
}
LONGEST_LINE = 16_384
"""Characters of a requirement; the hashes of a large package take several thousand."""
# Repeats of characters are possessive, so that a mismatch never backtracks. Repeats of groups are not: Python before
# 3.11.5 matches those wrongly.
NAME = re.compile(r"\s*+([A-Za-z0-9]++(?:[._-]++[A-Za-z0-9]++)*)\s*+(?:\[([^\]]*+)\])?")
VERSIONS = r"\s*+\(?+\s*+(?:(?:===|==|!=|<=|>=|~=|<|>)\s*+[A-Za-z0-9._+!*-]++\s*+,?+\s*+)*\)?+"
ADDRESS = r"[A-Za-z0-9+.-]++:[^\s;'\"`$\\]++"
MARKER_WORD = (
    r"(?:python_version|python_full_version|os_name|sys_platform|platform_(?:machine|system|release|version|"
    r"python_implementation)|implementation_(?:name|version)|extra|and|or|not|in|"
    r"(?:===|==|~=|!=|<=|>=|<|>)(?![<>=!~])|[()]|"
    r"'[\w.,<>=!~\s+*-]*+'|\"[\w.,<>=!~\s+*-]*+\")"
)
MARKER = rf"(?:\s*+;(?:\s*+{MARKER_WORD})+)?(?:\s*+(?<=\s)--hash[= ][a-z0-9]++:[0-9a-f]++)*"
REQUIREMENT = re.compile(rf"(?:{NAME.pattern}(?:\s*+@\s*+{ADDRESS}|{VERSIONS})|{ADDRESS}){MARKER}\s*+")
BRINGS_PYTHON = ("python", "pip", "setuptools", "wheel")
KEPT_OPTIONS = (
    "--find-links",
    "-f",
    "--index-url",
    "-i",
    "--extra-index-url",
    "--pre",
    "--trusted-host",
    "--only-binary",
    "--no-binary",
)


@dataclass
class PackageRequests:
    """Packages that a user's lists ask for, in order; `python` is the version asked for or ''."""

    requirements: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    python: str = ""
    conda: list[str] = field(default_factory=list)
    """Lines of the conda lists that conda would install, as written."""
    conda_replacements: set[str] = field(default_factory=set)
    """Names of the PyPI requirements that replace them."""
    mappings: list[str] = field(default_factory=list)
    """Notes about each replacement; also in `notes`."""

    def names(self) -> set[str]:
        return {requirement_name(line) for line in self.requirements} - {""}


def requirement_name(line: str) -> str:
    """Normalized name of the package; '' for an option line."""
    found = None if line.lstrip().startswith("-") else NAME.match(line)
    return normalized_name(found.group(1)) if found else ""


def normalized_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def check_line_length(line: str, where: str) -> None:
    if len(line) > LONGEST_LINE:
        raise InvalidArgument(
            f"{where} holds a line of {len(line)} characters, {line[:60]!r}...; at most {LONGEST_LINE} are taken.",
            hint="Give one requirement an entry.",
        )


def has_version(line: str) -> bool:
    return bool(re.search(r"[=<>~!@]", line.split(";")[0]))


def add_pip(requested: PackageRequests, lines: Iterable[str]) -> None:
    for line in lines:
        check_line_length(line, "pip_packages")
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if not text:
            continue
        if re.search(r"[\r\n\0]", text):
            raise InvalidArgument(
                f"pip_packages holds {line!r}, which spans lines.", hint="Give one requirement an entry."
            )
        if text.startswith("-"):
            _add_option(requested, text)
        elif not REQUIREMENT.fullmatch(text):
            raise InvalidArgument(
                f"pip_packages holds {text!r}, which is not a requirement.", hint="Write it like 'numpy==1.16.6'."
            )
        elif AZUREML.fullmatch(requirement_name(text)):
            _add_azureml(requested, text)
        else:
            requested.requirements.append(text)
            requested.conda_replacements.discard(requirement_name(text))


def add_conda(requested: PackageRequests, lines: Iterable[str]) -> None:
    for line in lines:
        check_line_length(line, "conda_packages")
        package = parse_conda_line(line)
        if package.name == "python":
            requested.python = re.sub(r"^[=~<>! ]+", "", package.version.split(",")[0]).removesuffix(".*")
        elif package.name in BRINGS_PYTHON and not package.version:
            continue
        elif AZUREML.fullmatch(package.name):
            _add_azureml(requested, package.name + package.version)
        else:
            _add_mapped(requested, package)


def with_conda(spec: EnvironmentSpec, requested: PackageRequests, channels: Sequence[str]) -> EnvironmentSpec:
    """Add the conda part to a spec, for machines with conda. Notes about replacements are removed: the builder logs
    them if conda does not install the packages."""
    checked = check_channels(channels)
    if all(parse_conda_line(line).name in BRINGS_PYTHON for line in requested.conda):
        return spec
    rest = tuple(line for line in spec.requirements if requirement_name(line) not in requested.conda_replacements)
    return replace(
        spec,
        conda=CondaSpec(tuple(requested.conda), checked, rest),
        notes=tuple(note for note in spec.notes if note not in requested.mappings),
    )


def mapping_note(package: CondaLine) -> str:
    """Log line about what replaces a conda package when packages come from PyPI."""
    if is_not_on_pypi(package.name):
        return f"conda package '{package.text}' has no twin on the Python package index."
    if is_unneeded(package.name):
        return f"conda package '{package.text}' is left out: it is no Python package of the index, and none needs it."
    pypi = pypi_name(package.name) + package.version
    one_only = ", the last of its alternatives: the index takes no others" if "|" in package.text else ""
    return f"conda package '{package.text}' is installed from the Python package index as '{pypi}'{one_only}."


def _add_mapped(requested: PackageRequests, package: CondaLine) -> None:
    note = mapping_note(package)
    requested.notes.append(note)
    is_for_conda = not BOUND_TO_MPI.fullmatch(package.name)
    if is_for_conda:
        requested.mappings.append(note)
        requested.conda.append(package.text)
    if is_not_on_pypi(package.name) or is_unneeded(package.name):
        return
    pypi = pypi_name(package.name)
    requested.requirements.append(pypi + package.version)
    if is_for_conda:
        requested.conda_replacements.add(normalized_name(pypi))


def _add_azureml(requested: PackageRequests, text: str) -> None:
    found = NAME.match(text)
    extras = [normalized_name(extra) for extra in ((found and found.group(2)) or "").split(",") if extra.strip()]
    by_extra = AZUREML_BRINGS.get(requirement_name(text), {})
    dependencies = [package for extra in ["", *extras] for package in by_extra.get(extra, ())]
    requested.requirements.extend(
        package for package in dict.fromkeys(dependencies) if package not in requested.names()
    )
    also = f"; it stands for {', '.join(dict.fromkeys(dependencies))}" if dependencies else ""
    requested.notes.append(f"'{text}' is satisfied by Runyard itself{also}.")


def _add_option(requested: PackageRequests, text: str) -> None:
    option = re.split(r"[\s=]", text, maxsplit=1)[0]
    if option not in KEPT_OPTIONS:
        raise InvalidArgument(
            f"The pip requirements hold the line {text!r}, which cannot be followed on another machine.",
            hint="List the packages themselves; options that choose an index or a wheel folder are understood.",
        )
    if option != "--pre" and not re.fullmatch(r"[^\s=]++[\s=]\s*+\S++", text):
        raise InvalidArgument(
            f"The pip requirements hold the line {text!r}, which is not an option with one value.",
            hint="Write it like '--extra-index-url https://host/simple', one a line.",
        )
    requested.requirements.append(text)


# On PyPI these names are placeholders that point to the right name.
RIGHT_NAMES = {"sklearn": "scikit-learn", "skimage": "scikit-image", "pytorch": "torch", "pil": "pillow"}
# The GPU package of CNTK cannot be imported without a GPU driver.
WITHOUT_GPU = {"cntk-gpu": "cntk", "tensorflow-gpu": "tensorflow"}
MPI4PY_BEFORE_OPEN_MPI_4 = re.compile(r"mpi4py *== *3\.0\.[0-2]")
TENSORFLOW_RELEASE = re.compile(r"== *(\d+)\.(\d+)")
FIRST_WITH_CUDA_EXTRA = (2, 14)
CUPY = re.compile(r"cupy(-cuda\w+)?")
WITHOUT_OWN_VERSIONS = {"sklearn", "skimage", "pil"}


def replace_dead_packages(requested: PackageRequests, *, gpu_present: bool) -> None:
    """Replace packages that cannot be installed or used on this machine, with a note for each."""
    if not gpu_present:
        _leave_out_cupy(requested)
    replaced = [_replacement(line, gpu_present) for line in requested.requirements]
    for line, new in zip(requested.requirements, replaced, strict=True):
        if line != new:
            requested.notes.append(f"'{line}' is installed as '{new}'{_reason(line)}.")
    requested.requirements = replaced


def _leave_out_cupy(requested: PackageRequests) -> None:
    """Leave out CuPy: it cannot be imported without a GPU, and old releases need CUDA to build."""
    for line in [line for line in requested.requirements if CUPY.fullmatch(requirement_name(line))]:
        requested.requirements.remove(line)
        requested.notes.append(f"'{line}' is left out: there is no GPU here.")


def pin_framework(requested: PackageRequests, chosen: Recipe, *, by: str) -> None:
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
