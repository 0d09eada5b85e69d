"""A run finds the tools of its submitter's shell, of which the service, long started, knows nothing."""

from pathlib import Path

from azureml.core import Environment, Experiment, ScriptRunConfig
from azureml.core.conda_dependencies import CondaDependencies
from runyard.core.definitions.run import RunDefinition
from runyard.core.submitter_variables import submitter_variables
from runyard_sdk import submitter
from tests.environments.conda_tool.channel import MINOR, CondaChannel
from tests.environments.conda_tool.installing import install_micromamba


def test_every_variable_that_is_sent_is_kept(monkeypatch):
    for name in submitter._PASSED_ON + submitter._NETWORK:
        monkeypatch.setenv(name, "unix:///run/engine.sock" if name.endswith("_HOST") else f"value of {name}")
    sent = submitter.submitter_facts()["variables"]
    assert submitter_variables(RunDefinition.parse({"runyard": {"submitter": {"variables": sent}}})) == sent


def test_conda_packages_are_installed_by_the_micromamba_of_the_submitters_shell(workspace, monkeypatch, tmp_path):
    channel = CondaChannel(tmp_path / "channel")
    channel.add_python()
    channel.add_module("onlyinconda", "2.0")
    monkeypatch.setenv("MAMBA_EXE", str(install_micromamba(tmp_path / "of-the-shell")))
    made = Environment("of-conda")
    listed = CondaDependencies.create(python_version=MINOR, conda_packages=["onlyinconda"])
    for usual in list(listed.conda_channels):
        listed.remove_channel(usual)
    listed.add_channel(channel.address)
    made.python.conda_dependencies = listed
    (tmp_path / "source").mkdir()
    (tmp_path / "source/train.py").write_text("import onlyinconda; print('version', onlyinconda.version)")
    run = Experiment(workspace, "conda").submit(ScriptRunConfig(str(tmp_path / "source"), "train.py", environment=made))
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Completed", run.get_details()["error"]
    assert "version 2.0" in _log(run, tmp_path)


def _log(run: object, folder: Path) -> str:
    run.download_file("azureml-logs/70_driver_log.txt", str(folder / "log.txt"))
    return (folder / "log.txt").read_text()
