import pytest

from runyard.core.definitions.environment import EnvironmentDefinition
from runyard.core.definitions.fields import Fields
from runyard.core.definitions.run import submitter_of
from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.web_services import Scorer
from runyard.environments.recorded_packages import RecordedPackages
from runyard.serving.deployments.worker_environment import no_code_environment, script_environment

LOCK = "numpy==1.16.6\nscikit-learn==0.20.3 \\\n    --hash=sha256:0\nxgboost==0.90\nazureml-core==1.0\n# a comment\n"


def _environment(*pip: str) -> dict[str, object]:
    return {"python": {"condaDependencies": {"dependencies": ["python=3.8", {"pip": list(pip)}]}}}


@pytest.mark.parametrize(
    ("framework", "scorer", "package"),
    [
        ("TensorFlow", Scorer.TENSORFLOW, "tensorflow-cpu=="),
        ("TfKeras", Scorer.TENSORFLOW, "tensorflow-cpu=="),
        ("ScikitLearn", Scorer.SCIKIT_LEARN, "scikit-learn=="),
        ("scikit-learn", Scorer.SCIKIT_LEARN, "scikit-learn=="),
        ("Onnx", Scorer.ONNX, "onnxruntime=="),
        ("Chainer", Scorer.CHAINER, "chainer=="),
    ],
)
def test_a_framework_is_served_by_its_newest_release_when_nothing_else_is_known(framework, scorer, package):
    chosen, spec = no_code_environment(framework, None, gpu_present=False)
    assert chosen is scorer
    assert spec.requirements[0].startswith(package)
    assert spec.exact_python
    assert any("No model_framework_version is given" in note for note in spec.notes)


def test_the_release_of_the_seed_page_is_the_nearest_and_this_is_said():
    _, spec = no_code_environment("TensorFlow", "1.13.0", gpu_present=False)
    assert spec.requirements[0] == "tensorflow==1.13.1"
    assert (
        "model_framework_version='1.13.0': TensorFlow 1.13.1 is taken, the nearest release of that series."
        in spec.notes
    )


def test_torch_on_the_cpu_asks_for_a_cpu_build_first():
    _, spec = no_code_environment("PyTorch", "2.13", gpu_present=False)
    assert spec.choices[0][0] == "torch==2.13.0+cpu"
    _, spec = no_code_environment("PyTorch", "2.13", gpu_present=True)
    assert "torch==2.13.0" in spec.requirements


def test_a_gpu_gets_the_build_for_it():
    assert no_code_environment("Onnx", None, gpu_present=True)[1].requirements[0].startswith("onnxruntime-gpu==")


def test_the_lock_of_the_run_gives_python_release_and_company():
    origin = RecordedPackages.of_lock("3.7", LOCK, "run_1")
    _, spec = no_code_environment("ScikitLearn", None, gpu_present=False, origin=origin)
    assert spec.python.split(",")[0] == "3.7"
    assert spec.requirements[0] == "scikit-learn==0.20.3"
    assert {"numpy", "xgboost", "pandas"} <= set(spec.requirements)
    assert "azureml-core" not in spec.requirements
    assert {"numpy==1.16.6", "xgboost==0.90"} <= set(spec.preferences)
    assert "scikit-learn==0.20.3 is taken, as in run run_1." in spec.notes


def test_a_given_version_goes_before_that_of_the_run():
    origin = RecordedPackages.of_lock("3.7", LOCK, "run_1")
    _, spec = no_code_environment("ScikitLearn", "0.21.3", gpu_present=False, origin=origin)
    assert spec.requirements[0] == "scikit-learn==0.21.3"
    assert not any(line.startswith("scikit-learn") for line in spec.preferences)


def test_only_frameworks_that_run_foreign_code_take_the_company_along():
    origin = RecordedPackages.of_lock("3.7", "tensorflow==1.13.2\nnumpy==1.16.6\nmatplotlib==3.0", "run_1")
    _, spec = no_code_environment("TensorFlow", None, gpu_present=False, origin=origin)
    assert spec.requirements == ("tensorflow==1.13.2",)
    assert "numpy==1.16.6" in spec.preferences


def test_what_a_client_says_of_itself_is_taken_where_it_makes_sense():
    facts = {"python": "3.11.7", "packages": {"scikit-learn": "1.8.0", "Torch": "2.1.0+cpu", "x": 3, "y y": "1\n"}}
    origin = RecordedPackages.of_client(facts)
    assert origin.python == "3.11"
    assert origin.packages == {"scikit-learn": "1.8.0", "torch": "2.1.0+cpu", "x": "3"}
    _, spec = no_code_environment("ScikitLearn", None, gpu_present=False, origin=origin)
    assert spec.requirements[0] == "scikit-learn==1.8.0"
    _, spec = no_code_environment("PyTorch", None, gpu_present=False, origin=origin)
    assert spec.choices[0][0] == "torch==2.1.0+cpu"


@pytest.mark.parametrize("facts", [None, {}, "text", {"python": 3, "packages": []}, {"python": "snake"}])
def test_nonsense_from_a_client_is_as_good_as_nothing(facts):
    assert RecordedPackages.of_client(facts).packages == {}
    assert no_code_environment("ScikitLearn", None, gpu_present=False, origin=RecordedPackages.of_client(facts))


def test_the_version_of_an_onnx_model_is_the_formats():
    _, spec = no_code_environment("Onnx", "1.3", gpu_present=False)
    assert any(note.startswith("ONNX 1.3 is served by onnxruntime 1.") for note in spec.notes)
    with pytest.raises(InvalidArgument, match="model_framework_version='new' is not a version of ONNX"):
        no_code_environment("Onnx", "new", gpu_present=False)


@pytest.mark.parametrize("framework", [None, "", "Custom", "Multi", "Caffe", "../x", "\0"])
def test_another_framework_is_refused_with_what_would_do(framework):
    with pytest.raises(InvalidArgument) as refusal:
        no_code_environment(framework, None, gpu_present=False)
    assert "cannot be deployed without code" in refusal.value.problem
    assert "model_framework" in refusal.value.problem
    assert "ScikitLearn" in refusal.value.hint
    assert "inference_config" in refusal.value.hint


def test_a_version_that_cannot_be_run_names_the_argument_and_what_can():
    with pytest.raises(InvalidArgument) as refusal:
        no_code_environment("TensorFlow", "0.12", gpu_present=False)
    assert refusal.value.problem.startswith("model_framework_version='0.12'")
    assert "1.13" in refusal.value.hint


@pytest.mark.parametrize("asked", ["azureml-defaults", "azureml-defaults>=1.0.45", "azureml-sdk[automl]"])
def test_azureml_defaults_brings_the_decorators_of_schemas(asked):
    spec = script_environment(EnvironmentDefinition.parse(_environment(asked, "numpy")), gpu_present=False)
    assert "inference-schema" in spec.requirements
    assert spec.python == "3.8"


def test_the_users_own_choice_of_the_decorators_stays():
    spec = script_environment(
        EnvironmentDefinition.parse(_environment("azureml-defaults", "inference-schema[numpy-support]")),
        gpu_present=False,
    )
    assert [line for line in spec.requirements if "schema" in line] == ["inference-schema[numpy-support]"]


def test_without_azureml_defaults_nothing_is_added():
    assert script_environment(EnvironmentDefinition.parse(_environment("numpy")), gpu_present=False).requirements == (
        "numpy",
    )


def test_a_user_managed_environment_is_the_submitters_interpreter():
    environment = {"python": {"userManagedDependencies": True, "interpreterPath": "python"}}
    spec = script_environment(
        EnvironmentDefinition.parse(environment),
        gpu_present=False,
        submitter=submitter_of(Fields({"python": "/a/bin/python"})),
    )
    assert (spec.python, spec.user_managed) == ("/a/bin/python", True)


def test_no_environment_is_made_for_the_models_framework():
    models = [("Custom", None, None), ("ScikitLearn", "0.22.1", None)]
    spec = script_environment(None, gpu_present=False, frameworks=models)
    assert spec.requirements[0] == "scikit-learn==0.22.1"
    assert {"pandas", "numpy", "inference-schema"} <= set(spec.requirements)
    assert any("No environment is given: it is made for ScikitLearn" in note for note in spec.notes)


def test_no_environment_and_no_framework_gives_numpy_and_pandas():
    spec = script_environment(None, gpu_present=False, frameworks=[(None, None, None)])
    assert {"pandas", "numpy", "inference-schema"} <= set(spec.requirements)


OLD_KERNEL = RecordedPackages("3.7", {"scikit-learn": "0.20.3", "numpy": "1.16.6"}, "the notebook")


def _listed(python: str, *packages: str, origin: RecordedPackages = OLD_KERNEL) -> EnvironmentSpec:
    environment = {"python": {"condaDependencies": {"dependencies": [f"python={python}", *packages]}}}
    return script_environment(
        EnvironmentDefinition.parse(environment),
        gpu_present=False,
        frameworks=[(None, None, None), (None, None, origin)],
    )


@pytest.mark.parametrize(("python", "taken"), [("3.10.18", "3.7,3.6"), ("3.6.2", "3.6.2")])
def test_a_framework_without_a_version_is_the_one_that_made_the_model(python, taken):
    spec = _listed(python, "scikit-learn")
    assert "scikit-learn==0.20.3" in spec.requirements
    assert spec.python == taken
    assert "'scikit-learn' says no version: 0.20.3 is taken, as in the notebook." in spec.notes


def test_a_version_that_the_user_wrote_stays():
    assert "scikit-learn==0.22.1" in _listed("3.7", "scikit-learn==0.22.1").requirements


def test_a_python_that_the_user_wrote_stays_where_the_release_that_made_the_model_has_none_for_it():
    spec = _listed("3.9", "scikit-learn")
    assert ("scikit-learn" in spec.requirements, spec.python) == (True, "3.9")


def test_packages_that_are_no_framework_are_left_to_the_index():
    assert "numpy" in _listed("3.7", "numpy").requirements


@pytest.mark.parametrize("version", ["", "nonsense", "99.1"])
def test_a_release_that_nobody_knows_pins_nothing(version):
    origin = RecordedPackages("3.7", {"scikit-learn": version}, "the notebook")
    assert "scikit-learn" in _listed("3.7", "scikit-learn", origin=origin).requirements


@pytest.mark.parametrize(
    ("docker", "which"), [({"baseImage": "debian:12"}, "'debian:12'"), ({"baseDockerfile": "FROM a"}, "Dockerfile")]
)
def test_a_web_service_has_the_packages_of_an_image_environment_and_says_so(docker, which):
    environment = {**_environment("numpy"), "docker": {**docker, "enabled": True}}
    spec = script_environment(EnvironmentDefinition.parse(environment), gpu_present=False)
    assert (spec.requirements, spec.image) == (("numpy",), None)
    assert any(which in note and "not used" in note for note in spec.notes)


@pytest.mark.parametrize(
    ("python", "by_sdk", "expected"),
    [
        ("python=3.10.18", ["tensorflow=2.2.0"], "tensorflow==1.13.2"),
        ("python=3.8", ["tensorflow=2.2.0"], "tensorflow==2.2.0"),
        ("python=3.10.18", [], "tensorflow==2.2.0"),
        ("python=3.10.18", "nonsense", "tensorflow==2.2.0"),
    ],
)
def test_only_a_version_that_the_sdk_wrote_by_itself_gives_way_to_that_of_the_run(python, by_sdk, expected):
    conda = {"dependencies": [python, "tensorflow=2.2.0"]}
    environment = {"python": {"condaDependencies": conda, "versionsChosenBySdk": by_sdk}}
    origin = RecordedPackages.of_lock("3.6", "tensorflow==1.13.2\n", "run_1")
    assert (
        script_environment(
            EnvironmentDefinition.parse(environment), gpu_present=False, frameworks=[("Custom", None, origin)]
        ).requirements[0]
        == expected
    )
