import re
from collections.abc import Container, Sequence
from dataclasses import replace

from runyard.core.definitions.run import Estimator, RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.planning.frameworks import Recipe, last_recipe_on, recipe, recipe_of
from runyard.environments.planning.image import image_of, wants_image
from runyard.environments.planning.packages import (
    PackageRequests,
    add_conda,
    add_pip,
    has_version,
    normalized_name,
    pin_framework,
    replace_dead_packages,
    requirement_name,
    with_conda,
)
from runyard.environments.planning.source_builds import HOROVOD, build_dependencies, wants_horovod
from runyard.environments.recorded_packages import RecordedPackages

# Old source packages need pkg_resources to build, and TensorBoard to start; setuptools 81 has removed it.
WITH_PKG_RESOURCES = "setuptools<81"
BUILD_CONSTRAINTS = (WITH_PKG_RESOURCES,)
LAST_OF_THE_OLD_PYTHONS = (3, 8)
SDK_DEFAULT_PYTHON = "3.10.18"
"""Python version that the SDK writes into conda dependencies when the user names none."""
DEFAULT_VERSIONS = {"TensorFlow": "1.13", "PyTorch": "1.4", "Chainer": "5.1.0", "SKLearn": "0.20.3"}
BUILT_AGAINST_TORCH = {"torchvision", "torchaudio", "torchtext"}
MINOR = re.compile(r"3\.[0-9]{1,2}")
EXTRAS_AND_SPACES = re.compile(r"\[[^\[\]]*+\]|\s")


def plan_environment(
    definition: RunDefinition,
    *,
    gpu_present: bool,
    for_tables: Sequence[str] = (),
    origins: Sequence[RecordedPackages] = (),
    sources: str = "",
) -> EnvironmentSpec:
    """Plan the environment of a run: Python, packages and image. Raises InvalidArgument.

    `origins`: packages that the run's models were made with; a framework without a version gets the version there.
    `for_tables`: packages that reading tabular datasets needs; azureml-defaults installed them, so users rarely list
    them. `sources`: hash of the package sources, which is part of the environment's key.
    """
    image = image_of(definition.environment) if wants_image(definition) else None
    lock = definition.runyard.lock
    if definition.environment.python.user_managed:
        if image is not None:
            # The steps of a Dockerfile install from these sources too.
            taken_from = sources if image.dockerfile else ""
            return EnvironmentSpec(user_managed=True, image=image, sources=taken_from, locked=lock)
        return EnvironmentSpec(python=_managed_python(definition), user_managed=True)
    spec = _with_packages(definition, gpu_present, for_tables, origins)
    return replace(spec, image=image, sources=sources, locked=lock)


def _with_packages(
    definition: RunDefinition, gpu_present: bool, for_tables: Sequence[str], origins: Sequence[RecordedPackages]
) -> EnvironmentSpec:
    python, estimator = definition.environment.python, definition.runyard.estimator
    requested = _requested_packages(definition)
    _pin_to_origins(requested, origins, set(map(requirement_name, python.versions_chosen_by_sdk)))
    _add_for_tables(requested, for_tables)
    if estimator.unpinned:
        _pin_framework(requested, estimator, gpu_present)
    replace_dead_packages(requested, gpu_present=gpu_present)
    own_horovod = _removed(requested, HOROVOD)
    mpi = uses_mpi(definition)
    if estimator.framework:
        spec = _with_framework(estimator, requested, gpu_present, mpi)
    else:
        spec = replace(_from_user_list(requested, mpi), python_instead=_python_instead(requested, definition))
    return with_conda(_with_builds(spec, own_horovod, mpi), requested, python.channels)


def uses_mpi(definition: RunDefinition) -> bool:
    return "mpi" in definition.communicator.lower()


def _managed_python(definition: RunDefinition) -> str:
    path = definition.environment.python.interpreter_path
    if path.startswith("/"):
        return path
    submitter = definition.runyard.submitter.python
    if not submitter.startswith("/"):
        raise InvalidArgument(
            f"interpreter_path is {path!r}, and the submitting interpreter is not known.",
            hint="Give the absolute path of a Python interpreter of this machine.",
        )
    return submitter


def _requested_packages(definition: RunDefinition) -> PackageRequests:
    requested, python = PackageRequests(), definition.environment.python
    add_conda(requested, python.conda_packages)
    add_conda(requested, definition.runyard.conda_packages)
    add_pip(requested, python.pip_packages)
    return requested


def _pin_to_origins(requested: PackageRequests, origins: Sequence[RecordedPackages], by_sdk: Container[str]) -> None:
    """Pin frameworks to the versions that the models were made with, where the user chose none. `by_sdk`: packages
    whose version the SDK chose."""
    for at, line in enumerate(requested.requirements):
        name = requirement_name(line)
        origin = next((one for one in origins if name in one.packages), None)
        if origin is None or not (name in by_sdk or normalized_name(line) == name):
            continue
        chosen = recipe_of(f"{name}=={origin.release_of([name])}")
        if chosen and _suits(requested.python, chosen.pythons):
            requested.requirements[at] = f"{name}=={chosen.release}"
            why = "is the SDK's default" if name in by_sdk else "says no version"
            requested.notes.append(f"'{line}' {why}: {chosen.release} is taken, as in {origin.source}.")


def _pin_framework(requested: PackageRequests, estimator: Estimator, gpu_present: bool) -> None:
    """Pin the estimator's framework: to the user's version always, to the estimator's default if it runs on the
    environment's Python."""
    chosen = recipe(estimator.unpinned, estimator.version, gpu=gpu_present)
    is_default = estimator.version_is_default
    if not is_default or _suits(requested.python, chosen.pythons):
        pin_framework(requested, chosen, by="The estimator's default" if is_default else "framework_version")


def _suits(python: str, supported: tuple[str, ...]) -> bool:
    return python in ("", SDK_DEFAULT_PYTHON) or ".".join(python.split(".")[:2]) in supported


def _add_for_tables(requested: PackageRequests, packages: Sequence[str]) -> None:
    missing = [package for package in packages if package not in requested.names()]
    requested.requirements += missing
    if missing:
        requested.notes.append(f"Added to read the run's tabular datasets: {', '.join(missing)}.")


def _removed(requested: PackageRequests, name: str) -> list[str]:
    found = [line for line in requested.requirements if requirement_name(line) == name]
    requested.requirements = [line for line in requested.requirements if line not in found]
    return found


def _with_builds(spec: EnvironmentSpec, own: Sequence[str], mpi: bool) -> EnvironmentSpec:
    """Add Horovod and other source builds, which must be compiled against the installed framework."""
    packages = [*spec.requirements, *(line for choice in spec.choices for line in choice)]
    builds, notes = [*spec.builds], [*spec.notes]
    if own:
        builds.append(EXTRAS_AND_SPACES.sub("", own[-1].partition(";")[0]))
    elif mpi and wants_horovod(packages):
        builds.append(HOROVOD)
        notes.append("Added for MPI: Horovod, compiled against the framework.")
    there = set(map(requirement_name, packages))
    companions = [line for line in build_dependencies(builds) if requirement_name(line) not in there]
    return replace(spec, requirements=(*spec.requirements, *companions), builds=tuple(builds), notes=tuple(notes))


def _checked_python(version: str) -> str:
    parts = version.split(".")
    if not version:
        return ""
    if not all(part.isdigit() for part in parts) or len(parts) > 3 or (int(parts[0]), int((*parts, "99")[1])) < (3, 6):
        raise InvalidArgument(
            f"The conda dependencies ask for python {version!r}, which cannot be run.", hint="Ask for 3.6 or newer."
        )
    return version


def _python_instead(requested: PackageRequests, definition: RunDefinition) -> str:
    """The submitter's Python as a fallback for the SDK's default: the user's pins are likely for it."""
    version = definition.runyard.submitter.python_version
    return version if requested.python == SDK_DEFAULT_PYTHON and MINOR.fullmatch(version) else ""


def _from_user_list(requested: PackageRequests, mpi: bool) -> EnvironmentSpec:
    """Spec of the user's own list. A framework of a known version gets the packages and the Python that it needs."""
    python, is_exact = _checked_python(requested.python), False
    notes, preferences, companions = list(requested.notes), list[str](), list[str]()
    links: tuple[tuple[str, str], ...] = ()
    builds: list[str] = []
    for line in requested.requirements:
        chosen = recipe_of(line) or last_recipe_on(python, line)
        if chosen is None:
            continue
        preferences += chosen.constraints
        links += chosen.library_links
        # conda installs pip and setuptools into every environment, and old releases rely on them.
        companions += [one for one in chosen.packages if requirement_name(one) in ("pip", "setuptools")]
        companions += chosen.mpi_packages if mpi else ()
        builds += _mpi_builds(chosen, requested) if mpi else ()
        if _is_too_new(python, chosen.pythons):
            notes.append(f"'{line}' cannot be had for Python {python}; {' or '.join(chosen.pythons)} is taken.")
            python, is_exact = ",".join(chosen.pythons), True
    pinned = {requirement_name(line) for line in requested.requirements if has_version(line)}
    return EnvironmentSpec(
        python=python,
        exact_python=is_exact,
        requirements=tuple(
            dict.fromkeys(
                [
                    *requested.requirements,
                    *(one for one in companions if requirement_name(one) not in requested.names()),
                ]
            )
        ),
        build_constraints=BUILD_CONSTRAINTS,
        preferences=tuple(line for line in dict.fromkeys(preferences) if requirement_name(line) not in pinned),
        builds=tuple(dict.fromkeys(builds)),
        library_links=links,
        notes=tuple(notes),
    )


def _mpi_builds(chosen: Recipe, requested: PackageRequests) -> tuple[str, ...]:
    return tuple(line for line in chosen.mpi_builds if requirement_name(line) not in requested.names())


def _is_too_new(python: str, supported: tuple[str, ...]) -> bool:
    """Whether the wanted Python is newer than a release of up to 2020 will ever support."""
    newest = max(_minor(one) for one in supported)
    return newest <= LAST_OF_THE_OLD_PYTHONS and "," not in python and (not python or _minor(python) > newest)


def _minor(version: str) -> tuple[int, int]:
    major, _, rest = version.partition(".")
    return int(major), int(rest.split(".")[0] or 0)


def framework_environment(
    chosen: Recipe, requested: PackageRequests, *, gpu: bool, mpi: bool = False
) -> EnvironmentSpec:
    """Spec of a framework's recipe; the user's packages replace those of the same name."""
    notes = [*chosen.notes, *requested.notes]
    packages = [*chosen.packages, *(chosen.mpi_packages if mpi else ())]
    user_names = requested.names()
    kept = [line for line in packages if not _replaced(line, chosen, user_names, notes)]
    choices: tuple[tuple[str, ...], ...] = ()
    if chosen.framework == "PyTorch" and not gpu and chosen.packages[0] in kept:
        choices = _torch_choices(chosen.release, kept, user_names)
        kept = [line for line in kept if requirement_name(line) not in ("torch", "torchvision")]
    pinned = {requirement_name(line) for line in requested.requirements if has_version(line)}
    return EnvironmentSpec(
        python=",".join(chosen.pythons),
        exact_python=True,
        requirements=tuple(dict.fromkeys([*kept, *requested.requirements])),
        constraints=tuple(
            line for line in (*chosen.constraints, WITH_PKG_RESOURCES) if requirement_name(line) not in pinned
        ),
        build_constraints=BUILD_CONSTRAINTS,
        choices=choices,
        builds=_mpi_builds(chosen, requested) if mpi else (),
        notes=tuple(notes),
    )


def _with_framework(estimator: Estimator, requested: PackageRequests, gpu_present: bool, mpi: bool) -> EnvironmentSpec:
    framework = estimator.framework
    version = estimator.version or DEFAULT_VERSIONS.get(framework, "")
    gpu = bool(estimator.use_gpu) and gpu_present
    return framework_environment(recipe(framework, version, gpu=gpu), requested, gpu=gpu, mpi=mpi)


def _replaced(line: str, chosen: Recipe, user_names: set[str], notes: list[str]) -> bool:
    name = requirement_name(line)
    same = set(map(normalized_name, chosen.replaced_by)) | {name} if line == chosen.packages[0] else {name}
    if not same & user_names:
        return False
    notes.append(f"Your own {', '.join(sorted(same & user_names))} replaces '{line}' of {chosen.framework}.")
    return True


def _torch_choices(release: str, packages: list[str], user_names: set[str]) -> tuple[tuple[str, ...], ...]:
    """Choices of torch packages, CPU builds first. torchvision must be a CPU build too, or it cannot be imported."""
    usual = tuple(line for line in packages if requirement_name(line) in ("torch", "torchvision"))
    if release.endswith("*"):
        return (usual,)
    torch, vision = f"torch=={release}+cpu", f"torchvision=={_torchvision_of(release)}+cpu"
    alone = () if user_names & BUILT_AGAINST_TORCH else ((torch,),)
    return ((torch, vision), *alone, usual)


def _torchvision_of(release: str) -> str:
    major, minor, patch = release.split(".")[:3]
    return f"0.{int(minor) + (15 if major == '2' else 1)}.{patch}"
