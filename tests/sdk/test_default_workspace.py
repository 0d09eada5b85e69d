import pytest

from azureml.core import Workspace


def test_the_default_workspace_of_an_address_is_not_called_local(service, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNYARD_HOME", service["home"])
    Workspace.from_config()
    assert "the local default workspace 'default'" in capsys.readouterr().out
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNYARD_URL", service["url"])
        patch.setenv("RUNYARD_TOKEN", service["token"])
        Workspace.from_config()
        said = capsys.readouterr().out
    assert "local" not in said
    assert f"workspace 'default' of {service['url']}" in said
