"""Each curated environment can be had from the indexes of today, on a machine with and without a GPU."""

import os
from dataclasses import replace

import pytest

from azureml.core import Environment
from azureml.core._curated_environments import curated_names
from runyard.core.definitions.run import RunDefinition
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.package_sources import PackageSources
from runyard.environments.planning.environment_spec import plan_environment
from runyard.environments.planning.packages import requirement_name
from runyard.environments.python_downloads import obtain_interpreter
from runyard.environments.uv_installer import Uv


def distinct_specs() -> dict[EnvironmentSpec, str]:
    """What the names stand for, each once, by one of its names."""
    found: dict[EnvironmentSpec, str] = {}
    for gpu_present in (False, True):
        for name in curated_names():
            definition = {"environment": Environment._curated(name)._to_object()}
            spec = replace(plan_environment(RunDefinition.parse(definition), gpu_present=gpu_present), notes=())
            found.setdefault(spec, f"{name}{' with a GPU' * gpu_present}")
    return found


@pytest.mark.frameworks
@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for spec, name in distinct_specs().items()])
def test_a_curated_environment_resolves(spec, tmp_path):
    variables = {**os.environ, "TMPDIR": str(tmp_path)}  # uv leaves files there
    interpreter, _ = obtain_interpreter(spec, tmp_path / "interpreters.json", PackageSources(variables), print)
    with open(tmp_path / "lock", "w") as held:
        lock = Uv(variables, tmp_path, held.fileno()).resolve(spec, interpreter, print)
    assert set(map(requirement_name, spec.requirements)) <= set(map(requirement_name, lock.splitlines()))
