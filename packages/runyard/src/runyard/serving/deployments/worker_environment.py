"""Environment of a web service's workers: from the model's framework, or from the scoring script's environment."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from runyard.core.definitions.environment import EnvironmentDefinition
from runyard.core.definitions.run import UNKNOWN_SUBMITTER, RunDefinition, Submitter
from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.web_services import Scorer
from runyard.environments.planning.environment_spec import framework_environment, plan_environment
from runyard.environments.planning.frameworks import Recipe, newest_release, package_names, recipe
from runyard.environments.planning.image import image_of
from runyard.environments.planning.packages import PackageRequests, normalized_name, requirement_name
from runyard.environments.recorded_packages import RecordedPackages

ARGUMENT = "model_framework_version"
FrameworkOfModel = tuple[str | None, str | None, RecordedPackages | None]
"""model_framework, model_framework_version, origin."""


@dataclass(frozen=True)
class NoCodeServing:
    """How models of a framework are served without code."""

    scorer: Scorer
    recipe: str
    also: tuple[str, ...] = ()
    runs_foreign_code: bool = False
    """Loading a model may run code of any package that was installed when it was saved (pickle)."""


KINDS = {
    "tensorflow": NoCodeServing(Scorer.TENSORFLOW, "TensorFlow"),
    "tfkeras": NoCodeServing(Scorer.TENSORFLOW, "TensorFlow"),
    "scikitlearn": NoCodeServing(Scorer.SCIKIT_LEARN, "SKLearn", ("pandas",), runs_foreign_code=True),
    "onnx": NoCodeServing(Scorer.ONNX, "Onnx", ("numpy",)),
    "pytorch": NoCodeServing(Scorer.PYTORCH, "PyTorch", ("numpy",)),
    "chainer": NoCodeServing(Scorer.CHAINER, "Chainer", runs_foreign_code=True),
}
OTHER_WORDS = {"keras": "tfkeras", "sklearn": "scikitlearn", "onnxruntime": "onnx", "torch": "pytorch"}
WORDS = "TensorFlow, TfKeras, ScikitLearn, Onnx, PyTorch and Chainer"
FOR_SCRIPTS = ("azureml-defaults", "numpy", "pandas")
# The original packages depended on the one with the schema decorators of scoring scripts; Runyard's do not.
SCHEMA_PACKAGE = "inference-schema"
HAD_SCHEMA_PACKAGE = {"azureml-defaults", "azureml-inference-server-http", "azureml-sdk"}


def no_code_environment(
    framework: str | None, framework_version: str | None, *, gpu_present: bool, origin: RecordedPackages | None = None
) -> tuple[Scorer, EnvironmentSpec]:
    """Scorer and environment for a model without code. `origin` is used where `framework_version` is not given.

    Raises InvalidArgument, which names model_framework or model_framework_version and the values that work.
    """
    served = _served(framework)
    origin = origin or RecordedPackages()
    chosen = _chosen(served, framework_version or "", origin, gpu_present)
    requests = PackageRequests(requirements=[name for name in served.also if name not in _names(chosen)])
    if served.runs_foreign_code:
        own = {*chosen.replaced_by, *_names(chosen), *requests.names()}
        requests.requirements += [name for name in origin.packages if name not in own and not _is_ours(name)]
    spec = framework_environment(chosen, requests, gpu=gpu_present)
    return served.scorer, replace(
        spec, python=",".join(_pythons(chosen.pythons, origin)), preferences=tuple(_preferences(spec, chosen, origin))
    )


def script_environment(
    environment: EnvironmentDefinition | None,
    *,
    gpu_present: bool,
    submitter: Submitter = UNKNOWN_SUBMITTER,
    frameworks: Sequence[FrameworkOfModel] = (),
) -> EnvironmentSpec:
    """Environment of a scoring script: the given v1 `environment`, or a default for the models' frameworks."""
    if environment is None:
        return _default_environment(gpu_present, frameworks)
    of_machine, notes = _without_image(environment)
    definition = RunDefinition({"runyard": {"submitter": submitter.raw}}).with_environment(
        _with_schema_decorators(of_machine)
    )
    origins = [origin for _, _, origin in frameworks if origin]
    spec = plan_environment(definition, gpu_present=gpu_present, origins=origins)
    spec = replace(spec, notes=(*spec.notes, *notes))
    if not spec.exact_python or not origins:
        return spec
    return replace(spec, python=",".join(_pythons(spec.python.split(","), origins[0])))


def _served(framework: str | None) -> NoCodeServing:
    given = str(framework or "")
    word = re.sub(r"[^a-z]", "", given.lower())
    served = KINDS.get(OTHER_WORDS.get(word, word))
    if served is not None:
        return served
    what = f"with model_framework={given!r}" if given else "without a model_framework"
    raise InvalidArgument(
        f"A model that was registered {what} cannot be deployed without code.",
        hint=f"Register it with the framework that made it (known: {WORDS}), or pass an inference_config with a "
        "scoring script to Model.deploy.",
    )


def _chosen(served: NoCodeServing, version: str, origin: RecordedPackages, gpu: bool) -> Recipe:
    newest = newest_release(served.recipe)
    known = origin.release_of(sorted(package_names(served.recipe)))
    if served.scorer is Scorer.ONNX and version:
        return _for_onnx(version, known or newest, gpu)
    if version:
        return recipe(served.recipe, version, gpu=gpu, argument=ARGUMENT)
    if not known:
        chosen = recipe(served.recipe, newest, gpu=gpu)
        what_for = f"No {ARGUMENT} is given, and what made the model is not known"
        return replace(chosen, notes=(f"{what_for}: {chosen.packages[0]} is taken.",))
    chosen = recipe(served.recipe, known, gpu=gpu, argument=ARGUMENT)
    return replace(chosen, notes=(*chosen.notes, f"{chosen.packages[0]} is taken, as in {origin.source}."))


def _for_onnx(version: str, release: str, gpu: bool) -> Recipe:
    """The version of ONNX is that of the format: every onnxruntime reads all older formats."""
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,5}){0,2}", version):
        raise InvalidArgument(
            f"{ARGUMENT}={version!r} is not a version of ONNX.", hint="Give one such as '1.3', or leave it out."
        )
    chosen = recipe("Onnx", release, gpu=gpu)
    return replace(chosen, notes=(f"ONNX {version} is served by onnxruntime {chosen.release}, which reads it.",))


def _names(chosen: Recipe) -> set[str]:
    return set(map(requirement_name, chosen.packages))


def _is_ours(name: str) -> bool:
    return name.startswith(("azureml-", "runyard"))


def _pythons(minors: Iterable[str], origin: RecordedPackages) -> list[str]:
    """Put the origin's Python first: a pickle is best read by the Python that wrote it."""
    return sorted(minors, key=lambda minor: minor != origin.python)


def _preferences(spec: EnvironmentSpec, chosen: Recipe, origin: RecordedPackages) -> list[str]:
    settled = {requirement_name(line) for choice in spec.choices for line in choice}
    return origin.pins(without={*chosen.replaced_by, *settled})


def _without_image(environment: EnvironmentDefinition) -> tuple[EnvironmentDefinition, list[str]]:
    """Drop the image: workers run on this machine and get only the packages of the environment."""
    image = image_of(environment)
    if image is None:
        return environment, []
    which = f"The image {image.base!r}" if image.base else "The image of the Dockerfile"
    bare = {name: value for name, value in environment.raw.items() if name != "docker"}
    return EnvironmentDefinition(bare), [
        f"{which} is not used: a web service has the environment's packages on this machine."
    ]


def _with_schema_decorators(environment: EnvironmentDefinition) -> EnvironmentDefinition:
    python = environment.python
    names = {normalized_name(requirement_name(line)) for line in (*python.conda_packages, *python.pip_packages)}
    if not names & HAD_SCHEMA_PACKAGE or SCHEMA_PACKAGE in names:
        return environment
    return environment.with_pip_package(SCHEMA_PACKAGE)


def _default_environment(gpu_present: bool, frameworks: Sequence[FrameworkOfModel]) -> EnvironmentSpec:
    for framework, version, origin in frameworks:
        try:
            _, spec = no_code_environment(framework, version, gpu_present=gpu_present, origin=origin)
        except InvalidArgument:  # a script may serve a framework that cannot be served without code
            continue
        there = {requirement_name(line) for line in (*spec.requirements, *(spec.choices[-1] if spec.choices else ()))}
        missing = [name for name in (*FOR_SCRIPTS[1:], SCHEMA_PACKAGE) if name not in there]
        note = f"No environment is given: it is made for {framework}, with {', '.join(missing)}."
        return replace(spec, requirements=(*spec.requirements, *missing), notes=(*spec.notes, note))
    environment = EnvironmentDefinition()
    for package in (*FOR_SCRIPTS, SCHEMA_PACKAGE):
        environment = environment.with_pip_package(package)
    spec = plan_environment(RunDefinition().with_environment(environment), gpu_present=gpu_present)
    return replace(spec, notes=(*spec.notes, "No environment is given: it is made with numpy and pandas."))
