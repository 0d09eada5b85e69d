"""What a model is registered with, in the form of the wire."""
import re

from azureml._filters import as_texts
from azureml.core._client_facts import client_facts
from azureml.core.resource_configuration import ResourceConfiguration
from azureml.exceptions import WebserviceException

_NAME = r"^[a-zA-Z0-9][a-zA-Z0-9\-._]{0,254}\Z"


def check_model_name(name):
    """WebserviceException for a name that no model can have."""
    if not isinstance(name, str) or not re.match(_NAME, name):
        raise WebserviceException("The model name %r is not valid. It has 1 to 255 letters, digits, '-', '.' and '_', "
                                  "and begins with a letter or digit." % (name,))


def model_body(workspace, description, properties, framework, framework_version, datasets, sample_input, sample_output,
               resources):
    """WebserviceException where a framework's version is given without the framework."""
    if framework_version and not framework:
        raise WebserviceException("model_framework_version needs model_framework, for example "
                                  "Model.Framework.TENSORFLOW.")
    body = {"description": description, "properties": as_texts(properties), "framework": framework,
            "framework_version": framework_version, "datasets": dataset_pairs(workspace, datasets),
            "client": client_facts(framework)}
    body.update(samples(workspace, sample_input, sample_output))
    body.update(resource_fields(resources))
    return body


def samples(workspace, sample_input, sample_output):
    """The ids of the datasets that are given; unsaved ones are saved on the way."""
    given = {"sample_input_dataset_id": sample_input, "sample_output_dataset_id": sample_output}
    return {name: dataset._saved(workspace).id for name, dataset in given.items() if dataset is not None}


def dataset_pairs(workspace, datasets):
    return [[scenario, dataset._saved(workspace).id] for scenario, dataset in datasets or []]


def resource_fields(configuration):
    if configuration is None:
        return {}
    if not isinstance(configuration, ResourceConfiguration):
        raise WebserviceException("resource_configuration must be a ResourceConfiguration, got %r." % (configuration,))
    return {"cpu": configuration.cpu, "memory_in_gb": configuration.memory_in_gb, "gpu": configuration.gpu}


def resources_of(body):
    """The ResourceConfiguration that a stored model has, or None."""
    given = [body.get(name) for name in ("cpu", "memory_in_gb", "gpu")]
    return ResourceConfiguration(*given) if any(value is not None for value in given) else None
