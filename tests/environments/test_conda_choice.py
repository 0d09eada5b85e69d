import os
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause, PackageSettings
from runyard.core.records.launch_plan import CondaSpec, EnvironmentSpec
from runyard.environments.conda.tool import NAMES, choose_conda, find_conda, require_pypi_packages
from runyard.environments.package_sources import PackageSources
from runyard.environments.uv_environments import UvEnvironments


def _program(path: Path, says: str = "1.2.3") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return path


def _spec(*packages: str) -> EnvironmentSpec:
    return EnvironmentSpec(conda=CondaSpec(packages))


@pytest.mark.parametrize("place", ["miniforge3/bin", "miniconda3/condabin", "micromamba/bin", ".local/bin"])
@pytest.mark.parametrize("name", NAMES)
def test_a_tool_is_found_where_installers_put_it(tmp_path, place, name):
    path = _program(tmp_path / place / name)
    found = find_conda({"PATH": "", "HOME": str(tmp_path)})
    assert found
    assert (found.name, found.path) == (name, str(path))


@pytest.mark.parametrize(
    ("variable", "value"), [("MAMBA_EXE", "x/micromamba"), ("CONDA_EXE", "x/conda"), ("MAMBA_ROOT_PREFIX", "")]
)
def test_a_tool_is_found_where_the_users_shell_has_it(tmp_path, variable, value):
    path = _program(tmp_path / (value or "bin/micromamba"))
    assert find_conda({"PATH": "", "HOME": str(tmp_path / "home")}) is None
    found = find_conda({"PATH": "", "HOME": str(tmp_path / "home"), variable: str(tmp_path / value)})
    assert found
    assert found.path == str(path)


def test_the_quickest_tool_is_taken_wherever_it_is(tmp_path):
    _program(tmp_path / "bin/conda")
    quick = _program(tmp_path / "micromamba/bin/micromamba")
    found = find_conda({"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)})
    assert found
    assert found.path == str(quick)


def test_what_cannot_be_started_is_no_tool(tmp_path):
    _program(tmp_path / "bin/conda").chmod(0o644)
    (tmp_path / "bin/mamba").mkdir()
    _program(tmp_path / "shims/micromamba")
    path = os.pathsep.join([str(tmp_path / "bin"), str(tmp_path / "shims"), "relative"])
    assert find_conda({"PATH": path, "HOME": str(tmp_path)}) is None


def test_a_tool_tells_its_version(tmp_path):
    _program(tmp_path / "bin/conda", "conda 4.3.16")
    found = find_conda({"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)})
    assert found
    assert found.version({"PATH": os.defpath}) == "4.3.16"
    assert str(found) == f"conda at {tmp_path}/bin/conda"


def _sources(tmp_path: Path, **settings: str) -> PackageSources:
    return PackageSources({"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}, PackageSettings(**settings))


def test_every_mapping_is_said_where_the_index_is_used(tmp_path):
    said: list[str] = []
    assert choose_conda(_spec("pytorch=1.4", "mkl", "numpy"), _sources(tmp_path), said.append) is None
    assert said == [
        "conda package 'pytorch=1.4' is installed from the Python package index as 'torch==1.4.*'.",
        "conda package 'mkl' is left out: it is no Python package of the index, and none needs it.",
        "conda package 'numpy' is installed from the Python package index as 'numpy'.",
    ]


def test_packages_without_a_twin_are_all_named_and_nothing_is_downloaded(tmp_path, root, variables):
    variables |= {"PATH": str(tmp_path / "bin"), "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    with pytest.raises(EnvironmentFailed) as failure:
        UvEnvironments(root, variables).ensure(_spec("numpy", "r-base=4.1", "r-ggplot2", "openjdk"), print)
    assert failure.value.facts["cause"] == FailureCause.NO_PYPI_TWIN
    assert failure.value.facts["packages"] == ["r-base=4.1", "r-ggplot2", "openjdk"]
    assert "'r-base=4.1', 'r-ggplot2', 'openjdk'" in failure.value.problem
    assert "micromamba" in failure.value.hint


def test_a_program_of_the_machine_does_for_a_package_that_is_one(tmp_path):
    java = _program(tmp_path / "bin/java")
    said: list[str] = []
    assert choose_conda(_spec("openjdk=8"), _sources(tmp_path), said.append) is None
    assert said == [f"conda package 'openjdk=8' has no twin on the Python package index; {java} of this machine does."]


def test_programs_of_the_machine_do_not_count_in_an_image(tmp_path):
    with pytest.raises(EnvironmentFailed) as failure:
        require_pypi_packages(_spec("git"), print)
    assert failure.value.facts["cause"] == FailureCause.NO_PYPI_TWIN


def test_a_workspace_that_wants_no_conda_is_told_that_this_is_why(tmp_path):
    _program(tmp_path / "bin/micromamba")
    with pytest.raises(EnvironmentFailed, match="setting conda is 'never'"):
        choose_conda(_spec("r-base"), _sources(tmp_path, conda="never"), print)


def test_a_lock_of_the_index_keeps_conda_out(tmp_path):
    _program(tmp_path / "bin/micromamba")
    assert choose_conda(_spec("numpy"), _sources(tmp_path), print, "# python: 3.11.4\nnumpy==1.26.4\n") is None


def test_a_lock_of_conda_needs_conda(tmp_path):
    with pytest.raises(EnvironmentFailed) as failure:
        choose_conda(_spec("numpy"), _sources(tmp_path), print, "@EXPLICIT\nfile:///c/numpy-1-0.tar.bz2#00\n")
    assert failure.value.facts["cause"] == FailureCause.CONDA_FAILED
