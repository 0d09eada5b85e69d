"""Package lists of users (pip, conda, azureml), translated to requirements of the Python package index."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runyard.errors import InvalidArgument
from runyard.model.plan import CondaSpec, EnvironmentSpec
from runyard.planning.conda_lines import CondaLine, check_channels, parse_conda_line
from runyard.planning.conda_names import BOUND_TO_MPI, has_no_twin, is_unneeded, twin_of

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
class Wishes:
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
    return normal(found.group(1)) if found else ""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def check_length(line: str, where: str) -> None:
    if len(line) > LONGEST_LINE:
        raise InvalidArgument(
            f"{where} holds a line of {len(line)} characters, {line[:60]!r}...; at most {LONGEST_LINE} are taken.",
            hint="Give one requirement an entry.",
        )


def has_version(line: str) -> bool:
    return bool(re.search(r"[=<>~!@]", line.split(";")[0]))


def add_pip(requested: Wishes, lines: Iterable[str]) -> None:
    for line in lines:
        check_length(line, "pip_packages")
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


def add_conda(requested: Wishes, lines: Iterable[str]) -> None:
    for line in lines:
        check_length(line, "conda_packages")
        package = parse_conda_line(line)
        if package.name == "python":
            requested.python = re.sub(r"^[=~<>! ]+", "", package.version.split(",")[0]).removesuffix(".*")
        elif package.name in BRINGS_PYTHON and not package.version:
            continue
        elif AZUREML.fullmatch(package.name):
            _add_azureml(requested, package.name + package.version)
        else:
            _add_mapped(requested, package)


def with_conda(spec: EnvironmentSpec, requested: Wishes, channels: Sequence[str]) -> EnvironmentSpec:
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
    if has_no_twin(package.name):
        return f"conda package '{package.text}' has no twin on the Python package index."
    if is_unneeded(package.name):
        return f"conda package '{package.text}' is left out: it is no Python package of the index, and none needs it."
    pypi = twin_of(package.name) + package.version
    one_only = ", the last of its alternatives: the index takes no others" if "|" in package.text else ""
    return f"conda package '{package.text}' is installed from the Python package index as '{pypi}'{one_only}."


def _add_mapped(requested: Wishes, package: CondaLine) -> None:
    note = mapping_note(package)
    requested.notes.append(note)
    is_for_conda = not BOUND_TO_MPI.fullmatch(package.name)
    if is_for_conda:
        requested.mappings.append(note)
        requested.conda.append(package.text)
    if has_no_twin(package.name) or is_unneeded(package.name):
        return
    pypi = twin_of(package.name)
    requested.requirements.append(pypi + package.version)
    if is_for_conda:
        requested.conda_replacements.add(normal(pypi))


def _add_azureml(requested: Wishes, text: str) -> None:
    found = NAME.match(text)
    extras = [normal(extra) for extra in ((found and found.group(2)) or "").split(",") if extra.strip()]
    by_extra = AZUREML_BRINGS.get(requirement_name(text), {})
    dependencies = [package for extra in ["", *extras] for package in by_extra.get(extra, ())]
    requested.requirements.extend(
        package for package in dict.fromkeys(dependencies) if package not in requested.names()
    )
    also = f"; it stands for {', '.join(dict.fromkeys(dependencies))}" if dependencies else ""
    requested.notes.append(f"'{text}' is satisfied by Runyard itself{also}.")


def _add_option(requested: Wishes, text: str) -> None:
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
