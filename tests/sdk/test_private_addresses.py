"""Passwords in the package addresses of environments: told to the node that builds, and to nobody else."""

import json
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.conda_dependencies import CondaDependencies
from tests.environments.index_server import Index, serving
from tests.environments.wheelhouse import add_wheel

SECRET = "pa55-of-an-index"
LOGIN = f"ada:{SECRET}"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    add_wheel(tmp_path / "wheels", "secretdemo", "1.0")
    return tmp_path / "wheels"


def assert_nowhere(home: str, secret: str = SECRET) -> None:
    holders = [path for path in Path(home).rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert holders == []


def from_conda_file(folder: Path, *pip: str) -> Environment:
    lines = ["dependencies:", "- python=3.11", "- pip:", *(f"  - {json.dumps(line)}" for line in pip)]
    (folder / "conda.yml").write_text("\n".join([*lines, ""]))
    return Environment.from_conda_specification("private", str(folder / "conda.yml"))


def run_in(workspace: Workspace, folder: Path, environment: Environment) -> Any:
    source = folder / "source"
    source.mkdir(exist_ok=True)
    (source / "train.py").write_text("import secretdemo\nprint('has', secretdemo.version)\n")
    run = Experiment(workspace, "private").submit(ScriptRunConfig(str(source), "train.py", environment=environment))
    run.wait_for_completion(raise_on_error=False)
    return run


@pytest.mark.parametrize(
    ("lines", "no_index"),
    [
        (["-i {index}", "--extra-index-url={index}", "secretdemo"], False),
        (["--find-links {index}/secretdemo/", "secretdemo @ {wheel}"], True),
    ],
    ids=["index", "find-links"],
)
def test_a_password_in_a_pip_line_serves_the_build_and_is_kept_in_the_vault_alone(
    workspace, service, tmp_path, wheels, monkeypatch, lines, no_index
):
    if no_index:
        monkeypatch.setenv("PIP_NO_INDEX", "1")
    with serving(Index(wheels, login=LOGIN)) as index:
        wheel = f"{index.host}/files/secretdemo-1.0-py3-none-any.whl".replace("://", f"://{LOGIN}@")
        pip = [line.format(index=index.address_with_login, wheel=wheel) for line in lines]
        run = run_in(workspace, tmp_path, from_conda_file(tmp_path, *pip))
        assert run.get_status() == "Completed", run.get_details()["error"]
        assert any("secretdemo" in asked for asked in index.asked)
    assert_nowhere(service["home"])
    assert SECRET not in json.dumps(run.get_details())
    assert "ada:****" in json.dumps(run.get_details())
    assert SECRET not in json.dumps(run.get_environment().python.conda_dependencies.as_dict())


def test_an_environment_that_is_had_back_from_the_workspace_still_builds(workspace, service, tmp_path, wheels):
    with serving(Index(wheels, login=LOGIN)) as index:
        made = Environment("registered")
        made.python.conda_dependencies = CondaDependencies.create(
            python_version="3.11", pip_packages=["secretdemo"], pip_indexurl=index.address_with_login
        )
        made.register(workspace)
        assert_nowhere(service["home"])
        run = run_in(workspace, tmp_path, Environment.get(workspace, "registered"))
        assert run.get_status() == "Completed", run.get_details()["error"]
    assert_nowhere(service["home"])


def test_two_passwords_for_one_address_do_not_touch_each_other(workspace, tmp_path, wheels):
    with serving(Index(wheels, login=LOGIN)) as index:
        wrong = index.address_with_login.replace(SECRET, "mistaken-of-an-index")
        right = from_conda_file(tmp_path, f"--index-url {index.address_with_login}", "secretdemo")
        right.register(workspace)
        failed = run_in(workspace, tmp_path, from_conda_file(tmp_path, f"--index-url {wrong}", "secretdemo"))
        assert failed.get_status() == "Failed"
        assert "mistaken-of-an-index" not in json.dumps(failed.get_details())
        run = run_in(workspace, tmp_path, Environment.get(workspace, "private"))
        assert run.get_status() == "Completed", run.get_details()["error"]
