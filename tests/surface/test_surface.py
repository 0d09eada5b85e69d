import json
from pathlib import Path
from typing import Any

import pytest

from tests.surface.differences import (
    attribute_differences,
    class_differences,
    constant_differences,
    field_differences,
    golden,
    import_differences,
)
from tests.surface.environment_instances import environment_instances
from tests.surface.instances import all_instances
from tests.surface.served_instances import served_instances

GAPS: dict[str, str] = json.loads((Path(__file__).parent / "gaps.json").read_text(encoding="utf-8"))
CLASSES: dict[str, dict[str, Any]] = golden("classes")


@pytest.fixture(scope="module")
def differences() -> set[str]:
    """Everything in which our surface is not the golden one."""
    found = {one for name, facts in CLASSES.items() for one in class_differences(name, facts)}
    for name, instance in (all_instances() | environment_instances() | served_instances()).items():
        found |= set(attribute_differences(name, instance, CLASSES[name]["attributes"]))
        found |= set(field_differences(name, instance, CLASSES[name]["fields"]))
    return found | set(import_differences(golden("imports"))) | set(constant_differences(golden("constants")))


def test_every_difference_from_sdk_v1_stands_in_the_gaps_file(differences):
    assert sorted(differences - set(GAPS)) == []


def test_a_gap_that_was_closed_leaves_the_gaps_file(differences):
    assert sorted(set(GAPS) - differences) == []


def test_every_gap_has_a_reason():
    assert [name for name, reason in GAPS.items() if len(reason.split()) < 4] == []


def test_every_part_of_an_environment_is_compared_as_an_object():
    parts = ("environment.", "databricks.", "container_registry.", "conda_dependencies.", "ContainerRegistry")
    named = {name for name in CLASSES if name.startswith(tuple(f"azureml.core.{part}" for part in parts))}
    assert len(named) > 20
    assert sorted(named - set(environment_instances())) == []


def test_the_golden_surface_holds_every_class_that_the_sdk_promises():
    promised = {
        "azureml.core.Workspace", "azureml.core.Experiment", "azureml.core.Run", "azureml.core.ScriptRun",
        "azureml.core.ScriptRunConfig", "azureml.core.RunConfiguration", "azureml.core.Environment",
        "azureml.core.conda_dependencies.CondaDependencies", "azureml.core.environment.PythonSection",
        "azureml.core.environment.DockerSection", "azureml.core.ComputeTarget", "azureml.core.compute.AmlCompute",
        "azureml.core.Model", "azureml.core.resource_configuration.ResourceConfiguration", "azureml.core.Keyvault",
        "azureml.core.authentication.InteractiveLoginAuthentication", "azureml.exceptions.UserErrorException",
        "azureml.train.estimator.Estimator", "azureml.train.dnn.TensorFlow", "azureml.train.dnn.PyTorch",
        "azureml.train.dnn.Chainer", "azureml.train.sklearn.SKLearn", "azureml.widgets.RunDetails",
        "azureml.tensorboard.Tensorboard", "azureml.core.Webservice", "azureml.core.webservice.AciWebservice",
        "azureml.core.webservice.AksWebservice", "azureml.core.webservice.LocalWebservice",
        "azureml.core.model.InferenceConfig", "azureml.core.model.ModelPackage", "azureml.core.compute.AksCompute",
        "azureml.core.Image", "azureml.train.hyperdrive.HyperDriveConfig", "azureml.train.hyperdrive.HyperDriveRun",
        "azureml.train.hyperdrive.HyperDriveRunConfig", "azureml.train.hyperdrive.BayesianParameterSampling",
        "azureml.train.hyperdrive.TruncationSelectionPolicy", "azureml.train.hyperdrive.PrimaryMetricGoal",
    }  # fmt: skip
    assert promised <= set(CLASSES)
