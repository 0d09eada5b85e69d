"""Environments as users keep, build and find them again, through a real service."""

import hashlib
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.environment import DockerBuildContext
from azureml.exceptions import ExperimentExecutionException, UserErrorException
from tests.sdk.yard import config

pytestmark = pytest.mark.slow

PASSWORD = "pass w0rd of a registry"


def environment_of(name: str, *packages: str, index: Path | None = None) -> Environment:
    """Of the tests' own Python, and of packages that come from the folder `index` alone."""
    made = Environment(name)
    made.python.conda_dependencies = CondaDependencies.create(
        python_version="3.11", pip_packages=list(packages), pip_indexurl=index.as_uri() if index else None
    )
    return made


def wheel(folder: Path, name: str, version: str, text: str = "") -> Path:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": text or f"VERSION = {version!r}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(inside, text)
    return path


def stored(workspace: Workspace, name: str) -> dict[str, Any]:
    return workspace._client.get(workspace._path("assets", "environments", name))["body"]


def test_versions_and_labels_name_what_was_registered(workspace):
    made = environment_of("labelled")
    assert [made.register(workspace).version, made.register(workspace).version] == ["1", "1"]
    made.environment_variables = {"A": "1"}
    assert made.register(workspace).version == "2"
    Environment.label(workspace, "labelled", "1", ["stable", "blessed"])
    assert Environment.get(workspace, "labelled", label="stable").version == "1"
    assert Environment.get(workspace, "labelled", label="latest").version == "2"
    Environment.label(workspace, "labelled", "2", ["stable"])
    assert Environment.get(workspace, "labelled", label="stable").environment_variables == {"A": "1"}
    with pytest.raises(UserErrorException, match="no label 'absent'"):
        Environment.get(workspace, "labelled", label="absent")
    with pytest.raises(UserErrorException, match="labels must be a list of names"):
        Environment.label(workspace, "labelled", "1", [])


@pytest.mark.parametrize("name", ["../x", "a/b", "a\nb", "a\0b", "", None, "x" * 300, "AzureML-Mine"])
def test_a_name_that_cannot_be_one_is_refused(workspace, name):
    with pytest.raises(UserErrorException, match="name"):
        environment_of(name).register(workspace)


@pytest.mark.parametrize("name", ["../../health", "a/b?version=1", "a\nb", "%2e%2e"])
def test_a_name_that_nothing_has_is_not_found(workspace, name):
    with pytest.raises(UserErrorException):
        Environment.get(workspace, name)
    assert Environment(name).get_image_details(workspace).image_exist is False


def test_an_environment_of_a_run_alone_is_kept_and_found_by_its_version(workspace, tmp_path):
    settings = config(tmp_path / "source", "pass")
    settings.run_config.environment.name = "unregistered"
    settings.run_config.environment.environment_variables = {"KEPT": "yes"}
    run = Experiment(workspace, "kept").submit(settings)
    run.wait_for_completion()
    used = run.get_environment()
    assert used.name == "unregistered"
    assert used.version.startswith("Autosave_")
    again = Environment.get(workspace, used.name, version=used.version)
    assert (again.name, again.version, again.environment_variables) == (used.name, used.version, {"KEPT": "yes"})
    assert [name for name in Environment.list(workspace) if not name.startswith("AzureML-")] == []


def test_a_run_of_a_registered_environment_has_its_version(workspace, tmp_path):
    settings = config(tmp_path / "source", "pass")
    settings.run_config.environment.name = "registered"
    settings.run_config.environment = settings.run_config.environment.register(workspace)
    run = Experiment(workspace, "kept").submit(settings)
    assert (run.get_environment().name, run.get_environment().version) == ("registered", "1")
    run.wait_for_completion()


def test_the_password_of_a_registry_is_in_nothing_that_is_stored_or_shown(workspace, tmp_path, service):
    settings = config(tmp_path / "source", "pass")
    environment = settings.run_config.environment
    environment.name = "private"
    registry = environment.docker.base_image_registry
    registry.address, registry.username, registry.password = "registry.example", "somebody", PASSWORD
    run = Experiment(workspace, "private").submit(settings)
    environment.register(workspace)
    run.wait_for_completion()
    assert PASSWORD not in str(run.get_details())
    assert run.get_environment().docker.base_image_registry.password is None
    assert stored(workspace, "private")["docker"]["baseImageRegistry"]["address"] == "registry.example"
    assert registry.password == PASSWORD
    # Not by rglob: an attempt's folder is removed meanwhile.
    files = (Path(folder) / name for folder, _, names in os.walk(service["home"]) for name in names)
    assert [path for path in files if path.is_file() and PASSWORD in _text(path)] == []


def test_a_build_that_is_in_the_cache_has_succeeded_at_once(workspace, tmp_path, capsys):
    place = wheel(tmp_path, "buildable", "1.0")
    made = environment_of("built", "buildable", index=_index(tmp_path, place))
    details = made.build(workspace)
    assert details.wait_for_completion(show_output=True) is details
    assert "buildable" in capsys.readouterr().out
    assert (details.status, "buildable" in details.get_log()) == ("Succeeded", True)
    assert details.log_url.startswith("http://127.0.0.1:")
    assert made.build(workspace).status == "Succeeded"
    assert made.build_local(workspace, useDocker=False) == capsys.readouterr().out.replace(
        "Image build status: Succeeded\n", ""
    )
    with pytest.raises(TypeError, match="unexpected argument 'elsewhere'"):
        made.build_local(workspace, elsewhere=True)


def test_a_virtual_environment_lies_in_no_image(workspace):
    made = environment_of("without-image").register(workspace)
    assert made.get_image_details(workspace).image_exist is False
    assert made.get_image_details(workspace).image is None


def test_a_build_that_fails_says_why_and_what_to_do(workspace, tmp_path):
    made = environment_of("unbuildable", "no-such-package-anywhere", index=_index(tmp_path))
    details = made.build(workspace)
    with pytest.raises(ExperimentExecutionException, match="no-such-package-anywhere") as failure:
        details.wait_for_completion(show_output=False)
    assert failure.value.facts["cause"] == "no_such_package"
    assert details.status == "Failed"


def test_a_folder_to_build_from_is_sent_as_it_is_now(workspace, tmp_path):
    folder = tmp_path / "context"
    (folder / "data").mkdir(parents=True)
    (folder / "docker").mkdir()
    (folder / "docker/Dockerfile").write_text("FROM scratch\nCOPY data /data\n")
    (folder / "data/kept.txt").write_text("kept")
    (folder / "data/left.log").write_text("left")
    (folder / ".dockerignore").write_text("**/*.log\ndocker\n")
    (tmp_path / "secret").write_text("of whoever builds")
    for name, leads_to in {"out": tmp_path / "secret", "far": tmp_path, "within": folder / "data/kept.txt"}.items():
        (folder / name).symlink_to(leads_to)
    context = DockerBuildContext.from_local_directory(workspace, str(folder), "docker/Dockerfile")
    (folder / "data/kept.txt").write_text("changed later")
    Environment.from_docker_build_context("from-folder", context).register(workspace)
    kept = stored(workspace, "from-folder")["docker"]["buildContext"]
    assert {path: sha256 for path, sha256, _, _ in kept["files"]}["data/kept.txt"] == _sha256("kept")
    names = [".dockerignore", "data/kept.txt", "docker/Dockerfile", "within"]
    assert sorted(entry[0] for entry in kept["files"]) == names
    found = Environment.get(workspace, "from-folder").docker.build_context
    assert (found.dockerfile_path, found.location_type) == ("docker/Dockerfile", "storageaccount")


@pytest.mark.parametrize("dockerfile_path", ["../Dockerfile", "/etc/passwd", "absent", "", None, "a\0b"])
def test_a_dockerfile_outside_of_the_folder_is_refused(workspace, tmp_path, dockerfile_path):
    (tmp_path / "context").mkdir()
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    with pytest.raises(UserErrorException, match="dockerfile_path"):
        DockerBuildContext.from_local_directory(workspace, str(tmp_path / "context"), dockerfile_path)


def test_a_private_wheel_is_kept_once_and_can_be_installed(workspace, tmp_path):
    path = wheel(tmp_path, "private_part", "2.0")
    address = Environment.add_private_pip_wheel(workspace, str(path))
    with pytest.raises(UserErrorException, match="exist_ok=True"):
        Environment.add_private_pip_wheel(workspace, str(path))
    assert Environment.add_private_pip_wheel(workspace, str(path), exist_ok=True) == address
    made = environment_of("with-wheel", address, index=_index(tmp_path))
    log = made.build(workspace).wait_for_completion(show_output=False).get_log()
    assert "private-part" in log.replace("_", "-")
    with pytest.raises(UserErrorException, match=r"ends in \.whl"):
        Environment.add_private_pip_wheel(workspace, __file__)


def test_a_private_wheel_that_replaces_another_is_what_new_runs_have(workspace, tmp_path):
    shown = [_shown_by_a_run(workspace, tmp_path, content) for content in ("first", "second", "first")]
    assert shown == ["first", "second", "first"]


def _shown_by_a_run(workspace: Workspace, folder: Path, content: str) -> str:
    """What the wheel of that content says in a run, once its file is gone."""
    path = wheel(folder, "replaced", "1.0", f"print('says', {content!r})\n")
    address = Environment.add_private_pip_wheel(workspace, str(path), exist_ok=True)
    path.unlink()
    (folder / "source").mkdir(exist_ok=True)
    (folder / "source/train.py").write_text("import replaced")
    made = environment_of("replaced", address)
    run = Experiment(workspace, "wheels").submit(ScriptRunConfig(str(folder / "source"), "train.py", environment=made))
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Completed", run.get_details()["error"]
    run.download_file("azureml-logs/70_driver_log.txt", str(folder / "log.txt"))
    return (folder / "log.txt").read_text().split("says ")[1].split()[0]


def _index(folder: Path, *wheels: Path) -> Path:
    """A package index of these files alone."""
    index = folder / "index"
    index.mkdir()
    for path in wheels:
        project = index / path.name.split("-")[0]
        project.mkdir()
        (project / path.name).write_bytes(path.read_bytes())
        (project / "index.html").write_text(f'<a href="{path.name}">{path.name}</a>')
    return index


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")
