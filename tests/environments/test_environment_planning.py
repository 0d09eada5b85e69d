from typing import Any

import pytest

from azureml.core.conda_dependencies import PYTHON_DEFAULT_VERSION
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.conda.tool import require_pypi_packages
from runyard.environments.planning.environment_spec import plan_environment
from runyard.environments.planning.frameworks import accepted_series, recipe
from runyard.environments.planning.packages import PackageRequests, add_conda

V1_VERSIONS = {
    "TensorFlow": ["1.10", "1.12", "1.13", "2.0", "2.1", "2.2", "2.3"],
    "PyTorch": ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6"],
    "Chainer": ["5.1.0", "7.0.0"],
    "SKLearn": ["0.20.3"],
}


def _definition(framework: str | None = None, version: str = "", **options: Any) -> dict[str, Any]:
    dependencies = [*options.get("conda", ["python=3.6.2"]), {"pip": options.get("pip", ["azureml-defaults"])}]
    estimator = {"framework": framework, "version": version, "use_gpu": options.get("use_gpu", False)}
    return {
        "communicator": options.get("communicator", "None"),
        "environment": {"python": {"condaDependencies": {"dependencies": dependencies}}},
        "runyard": {"estimator": estimator, "conda_packages": options.get("conda_packages", [])},
    }


@pytest.mark.parametrize(("framework", "version"), [(f, v) for f, versions in V1_VERSIONS.items() for v in versions])
def test_every_version_of_the_v1_estimators_has_a_recipe(framework, version):
    spec = plan_environment(RunDefinition.parse(_definition(framework, version)), gpu_present=False)
    assert spec.exact_python
    assert spec.python.startswith("3.6")


@pytest.mark.parametrize(
    ("framework", "version", "release", "is_noted"),
    [
        ("TensorFlow", "1.13", "1.13.2", True),
        ("TensorFlow", "1.13.1", "1.13.1", False),
        ("TensorFlow", "1.13.0", "1.13.1", True),
        ("TensorFlow", "1.14", "1.14.0", False),
        ("TensorFlow", "1", "1.15.5", True),
        ("TensorFlow", "2.21", "2.21.0", False),
        ("TensorFlow", "2.99", "2.99.*", False),
        ("PyTorch", "1.2", "1.2.0", False),
        ("PyTorch", "1.3", "1.3.1", True),
        ("PyTorch", "2.13.7", "2.13.0", True),
        ("Chainer", "7.0.0", "7.0.0.post1", True),
        ("Chainer", "6", "6.7.0", True),
        ("SKLearn", "0.22", "0.22", False),
        ("SKLearn", "0.22.0", "0.22", False),
        ("SKLearn", "0.22.2.post1", "0.22.2.post1", False),
    ],
)
def test_a_version_becomes_a_release_of_its_series(framework, version, release, is_noted):
    found = recipe(framework, version, gpu=False)
    assert found.release == release
    assert bool(found.notes) == is_noted
    assert all(version in note and release in note for note in found.notes)


@pytest.mark.parametrize(
    "version", ["", "1.9", "1.99", "3.0", "0.0", "1.13rc1", "newest", "1.13.2.1", "-1", "1..3", "２.0"]
)
def test_nonsense_is_refused_naming_the_argument_and_what_is_accepted(version):
    with pytest.raises(InvalidArgument) as refusal:
        recipe("TensorFlow", version, gpu=False)
    assert f"framework_version={version!r}" in refusal.value.problem
    assert "1.13" in refusal.value.hint


def test_tensorflow_1_13_gets_the_pins_it_needs_today():
    spec = plan_environment(RunDefinition.parse(_definition("TensorFlow", "1.13")), gpu_present=False)
    assert spec.python == "3.6,3.7"
    assert spec.requirements == ("tensorflow==1.13.2",)
    assert set(spec.constraints) == {"protobuf<3.21", "numpy<1.17", "h5py<3", "gast==0.2.2", "setuptools<81"}


@pytest.mark.parametrize(
    ("version", "use_gpu", "gpu_present", "package"),
    [
        ("1.13", True, True, "tensorflow-gpu==1.13.2"),
        ("1.13", True, False, "tensorflow==1.13.2"),
        ("1.13", False, True, "tensorflow==1.13.2"),
        ("2.21", True, True, "tensorflow[and-cuda]==2.21.0"),
        ("2.21", False, True, "tensorflow-cpu==2.21.0"),
    ],
)
def test_the_gpu_build_is_taken_only_where_it_is_wished_and_of_use(version, use_gpu, gpu_present, package):
    spec = plan_environment(
        RunDefinition.parse(_definition("TensorFlow", version, use_gpu=use_gpu)), gpu_present=gpu_present
    )
    assert spec.requirements[0] == package


def test_the_newest_tensorflow_brings_tensorboard():
    assert (
        "tensorboard"
        in plan_environment(RunDefinition.parse(_definition("TensorFlow", "2.21")), gpu_present=False).requirements
    )


def test_pytorch_on_the_cpu_asks_for_a_cpu_build_first():
    spec = plan_environment(RunDefinition.parse(_definition("PyTorch", "2.13")), gpu_present=False)
    assert spec.choices == (
        ("torch==2.13.0+cpu", "torchvision==0.28.0+cpu"),
        ("torch==2.13.0+cpu",),
        ("torch==2.13.0", "torchvision"),
    )
    assert not any(line.startswith("torch") for line in spec.requirements)


def test_pytorch_on_a_gpu_asks_for_the_usual_build():
    spec = plan_environment(RunDefinition.parse(_definition("PyTorch", "2.13", use_gpu=True)), gpu_present=True)
    assert not spec.choices
    assert spec.requirements[:2] == ("torch==2.13.0", "torchvision")


def test_a_cpu_build_is_not_taken_without_the_torchvision_that_the_user_asks_for():
    spec = plan_environment(RunDefinition.parse(_definition("PyTorch", "2.13", pip=["torchvision"])), gpu_present=False)
    assert spec.choices == (("torch==2.13.0+cpu", "torchvision==0.28.0+cpu"), ("torch==2.13.0",))


def test_a_package_of_the_user_replaces_that_of_the_framework():
    definition = _definition("TensorFlow", "1.13", pip=["tensorflow-gpu==1.12", "numpy==1.17.5"])
    spec = plan_environment(RunDefinition.parse(definition), gpu_present=False)
    assert spec.requirements == ("tensorflow==1.12", "numpy==1.17.5")
    assert not any(line.startswith("numpy") for line in spec.constraints)
    assert any("Your own tensorflow replaces 'tensorflow==1.13.2'" in note for note in spec.notes)


def test_mpi4py_comes_with_chainer_only_for_mpi():
    alone = plan_environment(RunDefinition.parse(_definition("Chainer", "5.1.0")), gpu_present=False)
    ranks = plan_environment(
        RunDefinition.parse(_definition("Chainer", "5.1.0", communicator="IntelMpi")), gpu_present=False
    )
    assert not any(line.startswith("mpi4py") for line in alone.requirements)
    assert ranks.builds == ("mpi4py==3.0.3; python_version < '3.8'",)
    assert "mpi4py; python_version >= '3.8'" in ranks.requirements


def test_the_python_of_a_plain_estimator_is_a_wish():
    spec = plan_environment(RunDefinition.parse(_definition()), gpu_present=False)
    assert (spec.python, spec.exact_python, spec.requirements) == ("3.6.2", False, ())


@pytest.mark.parametrize("version", ["2.7", "3.5", "2", "x"])
def test_a_python_too_old_is_refused(version):
    with pytest.raises(InvalidArgument, match=r"Ask for 3\.6 or newer"):
        plan_environment(RunDefinition.parse(_definition(conda=[f"python={version}"])), gpu_present=False)


def test_user_managed_dependencies_mean_the_submitting_interpreter():
    definition = {
        "environment": {"python": {"userManagedDependencies": True, "interpreterPath": "python"}},
        "runyard": {"submitter": {"python": "/usr/bin/python3"}},
    }
    spec = plan_environment(RunDefinition.parse(definition), gpu_present=False)
    assert (spec.python, spec.user_managed) == ("/usr/bin/python3", True)
    definition["environment"]["python"]["interpreterPath"] = "/opt/mine/bin/python"
    assert plan_environment(RunDefinition.parse(definition), gpu_present=False).python == "/opt/mine/bin/python"


@pytest.mark.parametrize(
    ("package", "brought"),
    [
        ("azureml-defaults", ()),
        ("azureml-core==1.0.65.*", ()),
        ("azureml-dataprep[pandas,fuse]", ("pandas", "pyarrow")),
        ("azureml-dataprep[fuse]", ()),
        ("azureml-dataset-runtime[fuse,pandas]", ("pyarrow", "pandas")),
        ("azureml-sdk[notebooks]", ("pandas", "pyarrow")),
        ("azureml_telemetry", ()),
    ],
)
def test_azureml_packages_are_replaced_by_what_they_brought(package, brought):
    spec = plan_environment(RunDefinition.parse(_definition(pip=[package])), gpu_present=False)
    assert spec.requirements == brought
    assert any(f"'{package}' is satisfied by Runyard itself" in note for note in spec.notes)


def _said_by_the_builder(spec: EnvironmentSpec) -> list[str]:
    """Where it has no conda."""
    said = list(spec.notes)
    require_pypi_packages(spec, said.append)
    return said


@pytest.mark.parametrize(
    ("package", "requirement"),
    [
        ("scikit-learn", "scikit-learn"),
        ("scikit-learn=0.20.3", "scikit-learn==0.20.3"),
        ("numpy=1.16", "numpy==1.16.*"),
        ("conda-forge::pandas>=0.25,<1", "pandas>=0.25,<1"),
        ("pytorch::pytorch=1.2.0=py3.6_cuda10", "torch==1.2.0"),
        ("python-graphviz", "graphviz"),
        ("opencv=4.1", "opencv-python-headless==4.1.*"),
        ("scipy 1.2.1", "scipy==1.2.1"),
    ],
)
def test_conda_packages_are_mapped_to_the_index_with_a_note(package, requirement):
    spec = plan_environment(RunDefinition.parse(_definition(conda_packages=[package])), gpu_present=False)
    assert spec.requirements[0] == requirement
    assert any(package in note and requirement in note for note in _said_by_the_builder(spec))


@pytest.mark.parametrize("package", ["cudatoolkit=10.0", "mkl", "openmpi", "cudnn", "_libgcc_mutex", "gcc_linux-64"])
def test_conda_packages_that_are_not_python_are_left_out_with_a_note(package):
    spec = plan_environment(RunDefinition.parse(_definition(conda_packages=[package])), gpu_present=False)
    assert spec.requirements == ()
    assert any(package in note and "left out" in note for note in _said_by_the_builder(spec))


@pytest.mark.parametrize(
    ("package", "gpu_present", "requirement"),
    [
        ("tensorflow-gpu", False, "tensorflow-cpu"),
        ("tensorflow-gpu", True, "tensorflow[and-cuda]"),
        ("tensorflow_gpu==1.13.1", False, "tensorflow==1.13.1"),
        ("tensorflow-gpu==2.16.*", True, "tensorflow[and-cuda]==2.16.*"),
        ("cntk-gpu==2.6", False, "cntk==2.6"),
        ("sklearn", False, "scikit-learn"),
        ("sklearn==0.0", False, "scikit-learn"),
        ("pytorch==1.4.0", False, "torch==1.4.0"),
        ("mpi4py==3.0.0", True, "mpi4py==3.0.3"),
    ],
)
def test_names_that_cannot_be_installed_are_replaced_with_a_note(package, gpu_present, requirement):
    spec = plan_environment(RunDefinition.parse(_definition(pip=[package])), gpu_present=gpu_present)
    assert spec.requirements[0] == requirement
    assert any(f"'{package}' is installed as '{requirement}'" in note for note in spec.notes)


@pytest.mark.parametrize(
    ("conda", "expected"),
    [
        (["python=3.6.2", "pytorch", "torchvision"], ("torch", "torchvision", "setuptools<60")),
        (["python=3.10", "pytorch", "torchvision"], ("torch", "torchvision")),
        (["python=3.6.2", "flask"], ("flask",)),
    ],
)
def test_a_framework_without_a_version_has_the_company_of_its_last_release_for_an_old_python(conda, expected):
    assert plan_environment(RunDefinition.parse(_definition(conda=conda)), gpu_present=False).requirements == expected


def test_a_file_of_a_framework_has_no_company_but_its_own():
    definition = _definition(conda=["python=3.6.2"], pip=["torch @ https://example.com/torch-1.10.1-cp36-none-any.whl"])
    assert "setuptools<60" not in plan_environment(RunDefinition.parse(definition), gpu_present=False).requirements


def test_a_package_for_gpus_that_runs_without_one_stays():
    spec = plan_environment(RunDefinition.parse(_definition(pip=["onnxruntime-gpu==1.14.1"])), gpu_present=False)
    assert spec.requirements[0] == "onnxruntime-gpu==1.14.1"


def test_a_package_for_gpus_stays_where_there_is_one():
    spec = plan_environment(RunDefinition.parse(_definition(pip=["cntk-gpu==2.6"])), gpu_present=True)
    assert spec.requirements[0] == "cntk-gpu==2.6"


def test_an_own_environment_without_a_version_gets_that_of_the_estimator():
    definition = _definition(conda=["python=3.10.18"], pip=["tensorflow-gpu", "keras"], version="1.13")
    definition["runyard"]["estimator"]["unpinned"] = "TensorFlow"
    spec = plan_environment(RunDefinition.parse(definition), gpu_present=False)
    assert (spec.requirements, spec.python) == (("tensorflow==1.13.2", "keras"), "3.6,3.7")
    assert any("framework_version makes 'tensorflow-gpu'" in note for note in spec.notes)


@pytest.mark.parametrize(
    ("python", "expected"),
    [
        ("3.6.2", "tensorflow==1.13.2"),
        ("3.10.18", "tensorflow==1.13.2"),  # of the SDK, not of its user
        ("3.9", "tensorflow-cpu"),
    ],
)
def test_the_default_of_an_estimator_stands_where_the_python_can_have_it(python, expected):
    definition = _definition(conda=[f"python={python}"], pip=["tensorflow-gpu"], version="1.13")
    definition["runyard"]["estimator"] |= {"unpinned": "TensorFlow", "version_is_default": True}
    assert plan_environment(RunDefinition.parse(definition), gpu_present=False).requirements[0] == expected


def test_old_frameworks_find_the_setuptools_that_conda_gave_them():
    spec = plan_environment(RunDefinition.parse(_definition(pip=["chainer==5.1.0"])), gpu_present=False)
    assert spec.requirements == ("chainer==5.1.0", "setuptools<70")
    own = plan_environment(
        RunDefinition.parse(_definition(pip=["chainer==5.1.0", "setuptools==40.0"])), gpu_present=False
    )
    assert own.requirements == ("chainer==5.1.0", "setuptools==40.0")


@pytest.mark.parametrize("package", ["cupy-cuda90==5.1.0", "cupy", "cupy-cuda12x"])
def test_cupy_is_left_out_where_there_is_no_gpu(package):
    spec = plan_environment(RunDefinition.parse(_definition(pip=[package])), gpu_present=False)
    assert spec.requirements == ()
    assert f"'{package}' is left out: there is no GPU here." in spec.notes
    assert plan_environment(RunDefinition.parse(_definition(pip=[package])), gpu_present=True).requirements == (
        package,
    )


def test_a_gpu_build_that_can_be_used_is_left_alone():
    spec = plan_environment(RunDefinition.parse(_definition(pip=["tensorflow-gpu==1.13.1"])), gpu_present=True)
    assert spec.requirements == ("tensorflow-gpu==1.13.1",)


def test_a_framework_in_the_users_own_list_gets_the_company_it_needs():
    spec = plan_environment(
        RunDefinition.parse(_definition(pip=["tensorflow==1.13.1", "h5py==3.1.0", "pandas"])), gpu_present=False
    )
    assert set(spec.preferences) == {"protobuf<3.21", "numpy<1.17", "gast==0.2.2"}
    assert (spec.python, spec.exact_python) == ("3.6.2", False)


@pytest.mark.parametrize(
    ("wish", "package", "python"),
    [
        (["python=3.10.18"], "tensorflow==1.13.1", "3.6,3.7"),
        ([], "scikit-learn==0.20.3", "3.6,3.7"),
        (["python=3.10.18"], "scikit-learn=0.22", "3.6,3.7,3.8"),
        (["python=3.10.18"], "scikit-learn==1.2.2", "3.10.18"),
        (["python=3.10.18"], "tensorflow==9.9", "3.10.18"),
        (["python=3.10.18"], "tensorflow>=1.13", "3.10.18"),
        (["python=3.10.18"], "scikit-learn>=0.20,<0.23", "3.6,3.7,3.8"),
        (["python=3.10.18"], "scikit-learn==0.22.2.post1", "3.6,3.7,3.8"),
        (["python=3.10.18"], "tensorflow<2", "3.6,3.7"),
        (["python=3.10.18"], "tensorflow<=2.0", "3.6,3.7"),
        (["python=3.10.18"], "tensorflow<0.1", "3.10.18"),
        (["python=3.10.18"], "scikit-learn<2", "3.10.18"),
    ],
)
def test_a_release_from_before_the_wished_python_gets_one_of_its_own_time(wish, package, python):
    spec = plan_environment(RunDefinition.parse(_definition(conda=[*wish, package])), gpu_present=False)
    assert (spec.python, spec.exact_python) == (python, "," in python)
    assert any("cannot be had for Python" in note for note in spec.notes) == spec.exact_python


def test_pip_itself_in_a_conda_file_says_nothing():
    wishes = PackageRequests()
    add_conda(wishes, ["pip", "python>=3.7"])
    assert (wishes.requirements, wishes.notes, wishes.python) == ([], [], "3.7")


@pytest.mark.parametrize("line", ["-r other.txt", "-e .", "../up", "a\nb", "--no-such-option"])
def test_requirement_lines_that_cannot_be_followed_are_refused(line):
    with pytest.raises(InvalidArgument, match="pip"):
        plan_environment(RunDefinition.parse(_definition(pip=[line])), gpu_present=False)


def test_comments_are_dropped_and_wheel_folders_kept():
    lines = ["", "# only a comment", "numpy  # with a reason", "--find-links /wheels"]
    spec = plan_environment(RunDefinition.parse(_definition(pip=lines)), gpu_present=False)
    assert spec.requirements == ("numpy", "--find-links /wheels")


def test_accepted_versions_include_all_that_v1_listed():
    for framework, versions in V1_VERSIONS.items():
        assert {".".join(version.split(".")[:2]) for version in versions} <= set(accepted_series(framework))


def test_what_tables_take_is_added_unless_the_user_names_it():
    definition = _definition(pip=["azureml-defaults", "pandas==1.1.5"])
    spec = plan_environment(RunDefinition.parse(definition), gpu_present=False, for_tables=("pandas", "pyarrow"))
    assert spec.requirements == ("pandas==1.1.5", "pyarrow")
    assert "Added to read the run's tabular datasets: pyarrow." in spec.notes


def _asked_from_python(version: str, *, asked: str) -> str:
    definition = _definition(conda=[f"python={asked}"], pip=["demo"])
    definition["runyard"] = {"submitter": {"python_version": version}}
    return plan_environment(RunDefinition.parse(definition), gpu_present=False).python_instead


def test_the_submitters_python_stands_in_for_the_default_of_the_sdk():
    assert _asked_from_python("3.12", asked=PYTHON_DEFAULT_VERSION) == "3.12"


def test_nothing_stands_in_for_a_python_that_the_user_chose():
    assert _asked_from_python("3.12", asked="3.9") == ""


@pytest.mark.parametrize("nonsense", ["", "3", "2.7", "3.12; rm", "../3.12"])
def test_a_submitter_that_says_no_version_has_none_that_stands_in(nonsense):
    assert _asked_from_python(nonsense, asked=PYTHON_DEFAULT_VERSION) == ""


def test_scikit_learn_of_2017_gets_the_python_that_it_was_built_for():
    spec = plan_environment(
        RunDefinition.parse(_definition(conda=["python=3.10.18", "scikit-learn==0.19.1"])), gpu_present=False
    )
    assert (spec.python, spec.exact_python) == ("3.6", True)
