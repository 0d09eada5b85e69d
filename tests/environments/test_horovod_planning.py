from typing import Any

import pytest

from runyard.core.definitions.run import RunDefinition
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.folder import environment_key
from runyard.environments.planning.environment_spec import plan_environment
from runyard.environments.planning.packages import requirement_name
from runyard.environments.planning.source_builds import SkippedBuild, SourceBuild, source_build


def _plan(framework: str | None = None, version: str = "", *, mpi: bool = True, **lists: Any) -> EnvironmentSpec:
    dependencies = [*lists.get("conda", ["python=3.6.2"]), {"pip": lists.get("pip", [])}]
    definition = {
        "communicator": "OpenMpi" if mpi else "None",
        "environment": {"python": {"condaDependencies": {"dependencies": dependencies}}},
        "runyard": {"estimator": {"framework": framework, "version": version, "use_gpu": False}},
    }
    return plan_environment(RunDefinition.parse(definition), gpu_present=False)


@pytest.mark.parametrize(("framework", "version"), [("TensorFlow", "1.13"), ("TensorFlow", "2.13"), ("PyTorch", "1.4")])
def test_an_estimator_that_asks_for_mpi_gets_horovod_and_all_it_needs(framework, version):
    spec = _plan(framework, version)
    assert spec.builds == ("horovod",)
    there = set(map(requirement_name, spec.requirements))
    assert there >= {"pip", "wheel", "setuptools", "cffi", "psutil", "cloudpickle", "pyyaml", "six", "packaging"}
    assert "Added for MPI: Horovod, compiled against the framework." in spec.notes
    assert _plan(framework, version, mpi=False).builds == ()


@pytest.mark.parametrize("package", ["tensorflow==1.13.1", "torch==1.4.0", "tensorflow-cpu"])
def test_a_framework_among_the_packages_of_an_mpi_run_gets_horovod(package):
    assert _plan(pip=[package]).builds == ("horovod",)
    assert _plan(pip=[package], mpi=False).builds == ()


def test_an_mpi_run_without_a_framework_that_horovod_knows_gets_none():
    assert _plan(pip=["scikit-learn", "mpi4py"]).builds == ()
    assert _plan("SKLearn", "0.20.3").builds == ()


@pytest.mark.parametrize("mpi", [True, False])
@pytest.mark.parametrize(
    ("lists", "asked"),
    [
        ({"pip": ["horovod==0.18.2"]}, "horovod==0.18.2"),
        ({"pip": ["Horovod[tensorflow] == 0.18.2 ; python_version >= '3'"]}, "Horovod==0.18.2"),
        ({"pip": ["horovod>=0.16,<0.19"]}, "horovod>=0.16,<0.19"),
        ({"conda": ["python=3.6.2", "horovod=0.18.2"]}, "horovod==0.18.2"),
    ],
)
def test_the_users_own_horovod_is_built_like_ours(lists, asked, mpi):
    spec = _plan("TensorFlow", "1.13", mpi=mpi, **lists)
    assert spec.builds == (asked,)
    assert "horovod" not in set(map(requirement_name, spec.requirements))


def test_chainer_gets_mpi4py_whether_by_estimator_or_by_package():
    compiled = ("mpi4py==3.0.3; python_version < '3.8'",)
    assert _plan("Chainer", "5.1.0").builds == _plan(pip=["chainer==5.1.0"]).builds == compiled
    assert _plan(pip=["chainer"]).builds == compiled
    assert _plan("Chainer", "5.1.0", pip=["mpi4py==3.1.1"]).builds == ()
    assert _plan("Chainer", "5.1.0", mpi=False).builds == ()


@pytest.mark.parametrize(
    ("lock", "release"),
    [
        ("tensorflow==1.10.0", "0.16.1"),
        ("numpy==1.16.6\ntensorflow==1.13.2\n", "0.16.1"),
        ("tensorflow-gpu==1.15.5", "0.19.5"),
        ("tensorflow-cpu==2.2.3", "0.19.5"),
        ("tensorflow-cpu==2.13.1", "0.28.1"),
        ("torch==1.1.0", "0.16.1"),
        ("torch==1.4.0+cpu", "0.19.5"),
        ("torch==2.13.0+cpu", "0.28.1"),
        ("tensorflow==1.13.2\ntorch==1.4.0", "0.16.1"),
    ],
)
def test_each_framework_has_the_release_that_suits_it(lock, release):
    build = source_build("horovod", lock)
    assert isinstance(build, SourceBuild)
    assert build.requirement == f"horovod=={release}"


def test_only_the_frameworks_of_the_environment_are_built_for():
    build = source_build("horovod", "torch==1.1.0\n")
    assert isinstance(build, SourceBuild)
    assert build.against == ("torch==1.1.0",)
    assert build.variables["HOROVOD_WITH_PYTORCH"] == build.variables["HOROVOD_WITHOUT_TENSORFLOW"] == "1"
    assert build.edits == ()


@pytest.mark.parametrize(("torch", "flags"), [("1.1.0", "CFLAGS"), ("1.4.0", "CFLAGS"), ("2.13.0", "CXXFLAGS")])
def test_old_sources_get_the_header_that_they_forgot(torch, flags):
    build = source_build("horovod", f"torch=={torch}\n")
    assert isinstance(build, SourceBuild)
    assert build.variables[flags] == "-include stdexcept"


def test_a_torch_that_wants_cxx17_gets_it():
    build = source_build("horovod", "torch==2.13.0+cpu\n")
    assert isinstance(build, SourceBuild)
    assert {edit.file for edit in build.edits} == {"CMakeLists.txt", "horovod/torch/CMakeLists.txt"}


@pytest.mark.parametrize(
    ("lock", "beside"),
    [
        ("numpy==1.0", "no TensorFlow and no torch"),
        ("torch==0.4", "torch 0.4"),
        ("tensorflow-cpu==2.21.0", "tensorflow-cpu 2.21.0"),
    ],
)
def test_where_no_release_suits_the_reason_is_given(lock, beside):
    build = source_build("horovod", lock)
    assert isinstance(build, SkippedBuild)
    assert f"known to work with {beside}" in build.why
    assert isinstance(source_build("horovod==0.28.1", lock), SourceBuild)


@pytest.mark.parametrize(("package", "wished"), [("cntk==2.5.1", "3.6.2"), ("cntk==2.7", "3.8"), ("cntk", "")])
def test_cntk_gets_python_3_6_pip_and_an_mpi_under_its_old_name(package, wished):
    spec = _plan(pip=[package], conda=[f"python={wished}"] if wished else [])
    assert spec.python.startswith("3.6")
    assert "pip" in spec.requirements
    assert set(spec.preferences) == {"numpy<1.17", "scipy<1.6"}
    assert dict(spec.library_links)["libmpi.so.12"] == "libmpi.so.40"
    assert spec.builds == ()


def test_specs_without_anything_to_compile_keep_the_keys_they_had():
    """An environment of an earlier release of Runyard is found again."""
    assert environment_key(EnvironmentSpec(requirements=("numpy",))) == "9c1ed8d5a9a23ab19537c3b9"
