import re
from collections.abc import Container, Sequence
from dataclasses import replace

from runyard.core.definitions.run import Estimator, RunDefinition
from runyard.errors import InvalidArgument
from runyard.model.plan import EnvironmentSpec
from runyard.planning.frameworks import Recipe, last_recipe_on, recipe, recipe_of
from runyard.planning.image import image_of, wants_image
from runyard.planning.origin import Origin
from runyard.planning.packages import Wishes, add_conda, add_pip, has_version, normal, requirement_name, with_conda
from runyard.planning.replacements import pin_framework, replace_dead_names
from runyard.planning.source_builds import HOROVOD, company_of, wants_horovod

# Old source packages import pkg_resources while they build, TensorBoard does when it starts; setuptools 81 is without.
WITH_PKG_RESOURCES = "setuptools<81"
BUILD_CONSTRAINTS = (WITH_PKG_RESOURCES,)
LAST_OF_THE_OLD_PYTHONS = (3, 8)
SDK_DEFAULT_PYTHON = "3.10.18"
"""What `add_tensorflow_conda_package()` writes where its user names no version. No Python 3.10 can have it, so nobody
has wished for it beside the SDK's default Python."""
DEFAULT_VERSIONS = {"TensorFlow": "1.13", "PyTorch": "1.4", "Chainer": "5.1.0", "SKLearn": "0.20.3"}
BUILT_AGAINST_TORCH = {"torchvision", "torchaudio", "torchtext"}
MINOR = re.compile(r"3\.[0-9]{1,2}")
EXTRAS_AND_SPACES = re.compile(r"\[[^\[\]]*+\]|\s")


def plan_environment(
    definition: RunDefinition,
    *,
    gpu_present: bool,
    for_tables: Sequence[str] = (),
    origins: Sequence[Origin] = (),
    sources: str = "",
) -> EnvironmentSpec:
    """What the run's interpreter must hold, and the image that it lies in. InvalidArgument names the argument that
    cannot be met.

    `origins`: what the models were made with; a framework that is asked for without a version is taken as there.
    `for_tables`: what reading the run's tables takes. azureml-defaults brought it, so few lists of packages name it.
    `sources`: tells apart environments whose packages come from different indexes.
    """
    image = image_of(definition.environment) if wants_image(definition) else None
    lock = definition.runyard.lock
    if definition.environment.python.user_managed:
        if image is not None:
            # The steps of a Dockerfile install from there too.
            taken_from = sources if image.dockerfile else ""
            return EnvironmentSpec(user_managed=True, image=image, sources=taken_from, locked=lock)
        return EnvironmentSpec(python=_managed_python(definition), user_managed=True)
    spec = _with_packages(definition, gpu_present, for_tables, origins)
    return replace(spec, image=image, sources=sources, locked=lock)


def _with_packages(
    definition: RunDefinition, gpu_present: bool, for_tables: Sequence[str], origins: Sequence[Origin]
) -> EnvironmentSpec:
    python, estimator = definition.environment.python, definition.runyard.estimator
    wishes = _wishes(definition)
    _pin_as_made(wishes, origins, set(map(requirement_name, python.versions_chosen_by_sdk)))
    _add_for_tables(wishes, for_tables)
    if estimator.unpinned:
        _pin_framework(wishes, estimator, gpu_present)
    replace_dead_names(wishes, gpu_present=gpu_present)
    own_horovod = _taken_out(wishes, HOROVOD)
    mpi = uses_mpi(definition)
    if estimator.framework:
        spec = _with_framework(estimator, wishes, gpu_present, mpi)
    else:
        spec = replace(_as_wished(wishes, mpi), python_instead=_python_instead(wishes, definition))
    return with_conda(_with_builds(spec, own_horovod, mpi), wishes, python.channels)


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


def _wishes(definition: RunDefinition) -> Wishes:
    wishes, python = Wishes(), definition.environment.python
    add_conda(wishes, python.conda_packages)
    add_conda(wishes, definition.runyard.conda_packages)
    add_pip(wishes, python.pip_packages)
    return wishes


def _pin_as_made(wishes: Wishes, origins: Sequence[Origin], by_sdk: Container[str]) -> None:
    """`by_sdk`: names whose version the SDK chose, not the user."""
    for at, line in enumerate(wishes.requirements):
        name = requirement_name(line)
        origin = next((one for one in origins if name in one.packages), None)
        if origin is None or not (name in by_sdk or normal(line) == name):
            continue
        chosen = recipe_of(f"{name}=={origin.release_of([name])}")
        if chosen and _suits(wishes.python, chosen.pythons):
            wishes.requirements[at] = f"{name}=={chosen.release}"
            why = "is the SDK's default" if name in by_sdk else "says no version"
            wishes.notes.append(f"'{line}' {why}: {chosen.release} is taken, as in {origin.said}.")


def _pin_framework(wishes: Wishes, estimator: Estimator, gpu_present: bool) -> None:
    """An estimator of a framework means the releases of its time, not those of today. A version that its user named
    is held in any case, its default where the environment's Python can have it."""
    chosen = recipe(estimator.unpinned, estimator.version, gpu=gpu_present)
    is_default = estimator.version_is_default
    if not is_default or _suits(wishes.python, chosen.pythons):
        pin_framework(wishes, chosen, by="The estimator's default" if is_default else "framework_version")


def _suits(python: str, supported: tuple[str, ...]) -> bool:
    return python in ("", SDK_DEFAULT_PYTHON) or ".".join(python.split(".")[:2]) in supported


def _add_for_tables(wishes: Wishes, packages: Sequence[str]) -> None:
    missing = [package for package in packages if package not in wishes.names()]
    wishes.requirements += missing
    if missing:
        wishes.notes.append(f"Added to read the run's tabular datasets: {', '.join(missing)}.")


def _taken_out(wishes: Wishes, name: str) -> list[str]:
    found = [line for line in wishes.requirements if requirement_name(line) == name]
    wishes.requirements = [line for line in wishes.requirements if line not in found]
    return found


def _with_builds(spec: EnvironmentSpec, own: Sequence[str], mpi: bool) -> EnvironmentSpec:
    """Horovod fits the framework it was compiled beside and no other: it comes last, built against the rest."""
    packages = [*spec.requirements, *(line for choice in spec.choices for line in choice)]
    builds, notes = [*spec.builds], [*spec.notes]
    if own:
        builds.append(EXTRAS_AND_SPACES.sub("", own[-1].partition(";")[0]))
    elif mpi and wants_horovod(packages):
        builds.append(HOROVOD)
        notes.append("Added for MPI: Horovod, compiled against the framework.")
    there = set(map(requirement_name, packages))
    company = [line for line in company_of(builds) if requirement_name(line) not in there]
    return replace(spec, requirements=(*spec.requirements, *company), builds=tuple(builds), notes=tuple(notes))


def _wished_python(version: str) -> str:
    parts = version.split(".")
    if not version:
        return ""
    if not all(part.isdigit() for part in parts) or len(parts) > 3 or (int(parts[0]), int((*parts, "99")[1])) < (3, 6):
        raise InvalidArgument(
            f"The conda dependencies ask for python {version!r}, which cannot be run.", hint="Ask for 3.6 or newer."
        )
    return version


def _python_instead(wishes: Wishes, definition: RunDefinition) -> str:
    """The submitter's, where the SDK filled in its default: what the user pins is what the submitter has."""
    version = definition.runyard.submitter.python_version
    return version if wishes.python == SDK_DEFAULT_PYTHON and MINOR.fullmatch(version) else ""


def _as_wished(wishes: Wishes, mpi: bool) -> EnvironmentSpec:
    """The user's own list. A framework of a known version gets the company, and the Python, it needs to run."""
    python, is_exact = _wished_python(wishes.python), False
    notes, preferences, company = list(wishes.notes), list[str](), list[str]()
    links: tuple[tuple[str, str], ...] = ()
    builds: list[str] = []
    for line in wishes.requirements:
        chosen = recipe_of(line) or last_recipe_on(python, line)
        if chosen is None:
            continue
        preferences += chosen.constraints
        links += chosen.library_links
        # conda put pip and setuptools into every environment, and old releases use them.
        company += [one for one in chosen.packages if requirement_name(one) in ("pip", "setuptools")]
        company += chosen.mpi_packages if mpi else ()
        builds += _mpi_builds(chosen, wishes) if mpi else ()
        if _is_too_new(python, chosen.pythons):
            notes.append(f"'{line}' cannot be had for Python {python}; {' or '.join(chosen.pythons)} is taken.")
            python, is_exact = ",".join(chosen.pythons), True
    pinned = {requirement_name(line) for line in wishes.requirements if has_version(line)}
    return EnvironmentSpec(
        python=python,
        exact_python=is_exact,
        requirements=tuple(
            dict.fromkeys(
                [*wishes.requirements, *(one for one in company if requirement_name(one) not in wishes.names())]
            )
        ),
        build_constraints=BUILD_CONSTRAINTS,
        preferences=tuple(line for line in dict.fromkeys(preferences) if requirement_name(line) not in pinned),
        builds=tuple(dict.fromkeys(builds)),
        library_links=links,
        notes=tuple(notes),
    )


def _mpi_builds(chosen: Recipe, wishes: Wishes) -> tuple[str, ...]:
    return tuple(line for line in chosen.mpi_builds if requirement_name(line) not in wishes.names())


def _is_too_new(python: str, supported: tuple[str, ...]) -> bool:
    """Whether a release of the years up to 2020 has no wheels for the wished Python, and will never have any."""
    newest = max(_minor(one) for one in supported)
    return newest <= LAST_OF_THE_OLD_PYTHONS and "," not in python and (not python or _minor(python) > newest)


def _minor(version: str) -> tuple[int, int]:
    major, _, rest = version.partition(".")
    return int(major), int(rest.split(".")[0] or 0)


def framework_environment(chosen: Recipe, wishes: Wishes, *, gpu: bool, mpi: bool = False) -> EnvironmentSpec:
    """The recipe's release and its company, with the user's own packages in front where both name one."""
    notes = [*chosen.notes, *wishes.notes]
    packages = [*chosen.packages, *(chosen.mpi_packages if mpi else ())]
    theirs = wishes.names()
    kept = [line for line in packages if not _replaced(line, chosen, theirs, notes)]
    choices: tuple[tuple[str, ...], ...] = ()
    if chosen.framework == "PyTorch" and not gpu and chosen.packages[0] in kept:
        choices = _torch_choices(chosen.release, kept, theirs)
        kept = [line for line in kept if requirement_name(line) not in ("torch", "torchvision")]
    pinned = {requirement_name(line) for line in wishes.requirements if has_version(line)}
    return EnvironmentSpec(
        python=",".join(chosen.pythons),
        exact_python=True,
        requirements=tuple(dict.fromkeys([*kept, *wishes.requirements])),
        constraints=tuple(
            line for line in (*chosen.constraints, WITH_PKG_RESOURCES) if requirement_name(line) not in pinned
        ),
        build_constraints=BUILD_CONSTRAINTS,
        choices=choices,
        builds=_mpi_builds(chosen, wishes) if mpi else (),
        notes=tuple(notes),
    )


def _with_framework(estimator: Estimator, wishes: Wishes, gpu_present: bool, mpi: bool) -> EnvironmentSpec:
    framework = estimator.framework
    version = estimator.version or DEFAULT_VERSIONS.get(framework, "")
    gpu = bool(estimator.use_gpu) and gpu_present
    return framework_environment(recipe(framework, version, gpu=gpu), wishes, gpu=gpu, mpi=mpi)


def _replaced(line: str, chosen: Recipe, theirs: set[str], notes: list[str]) -> bool:
    name = requirement_name(line)
    same = set(map(normal, chosen.replaced_by)) | {name} if line == chosen.packages[0] else {name}
    if not same & theirs:
        return False
    notes.append(f"Your own {', '.join(sorted(same & theirs))} replaces '{line}' of {chosen.framework}.")
    return True


def _torch_choices(release: str, packages: list[str], theirs: set[str]) -> tuple[tuple[str, ...], ...]:
    """CPU builds first. torchvision must be a CPU build too: the usual one cannot be imported beside it."""
    usual = tuple(line for line in packages if requirement_name(line) in ("torch", "torchvision"))
    if release.endswith("*"):
        return (usual,)
    torch, vision = f"torch=={release}+cpu", f"torchvision=={_torchvision_of(release)}+cpu"
    alone = () if theirs & BUILT_AGAINST_TORCH else ((torch,),)
    return ((torch, vision), *alone, usual)


def _torchvision_of(release: str) -> str:
    major, minor, patch = release.split(".")[:3]
    return f"0.{int(minor) + (15 if major == '2' else 1)}.{patch}"
