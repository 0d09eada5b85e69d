import json

from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.web_services import Scorer, ServedModel, ServiceSpec, ServiceType
from runyard.models.packages import package_texts

SPEC = ServiceSpec(
    id="1",
    workspace="space",
    name="package",
    type=ServiceType.ACI,
    revision=1,
    generation=1,
    scorer=Scorer.SCIKIT_LEARN,
    models=(ServedModel("a b", 3, ()), ServedModel("net", 1, ())),
    environment=EnvironmentSpec(),
    variables={"QUOTED": 'it\'s "so"\n$HOME', "CUDA_VISIBLE_DEVICES": "0"},
    build_variables={"PIP_INDEX_URL": "https://user:secret@index.example"},
    private_key="of the port",
)


def test_variables_of_the_user_come_along_as_they_are() -> None:
    assert json.loads(package_texts(SPEC, "3.7", "")["package.json"])["variables"] == {"QUOTED": 'it\'s "so"\n$HOME'}


def test_nothing_secret_of_this_machine_is_in_a_package() -> None:
    written = "".join(package_texts(SPEC, "3.7", "numpy==1.19.5").values())
    assert "secret" not in written
    assert "of the port" not in written


def test_models_are_named_by_paths_within_the_folder() -> None:
    models = json.loads(package_texts(SPEC, "3.7", "")["package.json"])["models"]
    assert [model["path"] for model in models] == ["azureml-models/a b/3", "azureml-models/net/1"]


def test_the_image_has_the_python_and_the_packages_of_the_environment() -> None:
    texts = package_texts(SPEC, "3.7", "numpy==1.19.5\n\njoblib==1.1.1")
    assert texts["Dockerfile"].startswith("FROM python:3.7-slim\n")
    assert texts["requirements.txt"] == "numpy==1.19.5\njoblib==1.1.1\n"
