"""An environment as a folder: its definition, and beside it the conda file and Dockerfile to edit."""
import json
import os

from azureml._elements import without_secrets
from azureml.core.conda_dependencies import CondaDependencies
from azureml.exceptions import UserErrorException

_DEFINITION_FILE = "azureml_environment.json"
_CONDA_FILE = "conda_dependencies.yml"
_DOCKERFILE = "BaseDockerfile"


def save(environment, path, overwrite):
    """Write the folder, without the registry's password; files that are there are replaced if told so."""
    os.makedirs(path, exist_ok=overwrite)
    conda = environment.python.conda_dependencies
    _write(path, _CONDA_FILE, conda.serialize_to_string() if conda is not None else None)
    _write(path, _DOCKERFILE, environment.docker.base_dockerfile)
    _write(path, _DEFINITION_FILE, json.dumps(without_secrets(environment._to_object()), indent=4))


def load(kind, path):
    """The environment that `save` wrote, of that class; edits of the conda file and Dockerfile count."""
    definition = os.path.join(path, _DEFINITION_FILE)
    if not os.path.isfile(definition):
        raise UserErrorException("There is no %s in %r." % (_DEFINITION_FILE, str(path)))
    with open(definition, encoding="utf-8") as file:
        try:
            made = kind._from_object(_mapping(json.load(file)))
        except ValueError as error:
            raise UserErrorException("%r is no environment's definition: %s." % (definition, error))
    if os.path.isfile(os.path.join(path, _CONDA_FILE)):
        made.python.conda_dependencies = CondaDependencies(os.path.join(path, _CONDA_FILE))
    if os.path.isfile(os.path.join(path, _DOCKERFILE)):
        made.docker.base_dockerfile = os.path.join(path, _DOCKERFILE)
    return made


def _mapping(value):
    if not isinstance(value, dict):
        raise ValueError("it must hold a mapping")
    return value


def _write(folder, name, text):
    """None removes what an earlier environment left there: it would be taken for this one's."""
    path = os.path.join(folder, name)
    if text is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    elif os.path.lexists(path):
        os.remove(path)
