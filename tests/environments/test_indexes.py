from pathlib import Path

import pytest

from runyard.environments.index_settings import pip_variables, uv_options, uv_variables


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    config = tmp_path / ".config/pip/pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text("[global]\nfind-links = /wheels\nindex-url = https://index.example/simple\n")
    return {"HOME": str(tmp_path)}


def test_the_settings_of_pip_are_told_to_uv(home):
    told = uv_variables(home)
    assert told["UV_FIND_LINKS"] == "/wheels"
    assert told["UV_DEFAULT_INDEX"] == "https://index.example/simple"


def test_variables_of_pip_win_over_its_files(home):
    assert uv_variables({**home, "PIP_FIND_LINKS": "/mine /yours"})["UV_FIND_LINKS"] == "/mine,/yours"


def test_all_indexes_are_looked_at_when_there_are_several(home):
    told = uv_variables({**home, "PIP_EXTRA_INDEX_URL": "https://more.example/simple"})
    assert told["UV_INDEX"] == "https://more.example/simple"
    assert told["UV_INDEX_STRATEGY"] == "unsafe-best-match"


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL"])
def test_a_choice_made_for_uv_itself_wins(home, name):
    told = uv_variables({**home, name: "https://uv.example/simple"})
    assert told[name] == "https://uv.example/simple"
    assert "https://index.example/simple" not in told.values()


def test_a_host_that_pip_trusts_is_trusted_by_uv(home):
    assert uv_variables({**home, "PIP_TRUSTED_HOST": "index.example"})["UV_INSECURE_HOST"] == "index.example"


def test_a_damaged_pip_configuration_is_passed_over(home):
    Path(home["HOME"], ".config/pip/pip.conf").write_text("find-links = [global")
    assert "UV_DEFAULT_INDEX" not in uv_variables(home)


def test_a_submitter_without_index_has_none_of_uv_either(home):
    assert uv_options({**home, "PIP_NO_INDEX": "1"}) == ["--no-index"]
    assert uv_options(home) == []


@pytest.mark.parametrize("name", ["UV_CONSTRAINT", "UV_OVERRIDE", "UV_EXCLUDE_NEWER", "UV_PRERELEASE", "UV_NO_BINARY"])
def test_no_variable_changes_what_is_in_an_environment_that_others_share(home, name):
    assert name not in uv_variables({**home, name: "something"})


def test_only_the_variables_of_the_submitter_reach_uv(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://service.example")
    kept = uv_variables({"HOME": "/home/me", "http_proxy": "http://mine.example", "AZUREML_RUN_TOKEN": "secret"})
    assert kept["http_proxy"] == "http://mine.example"
    assert "HTTPS_PROXY" not in kept
    assert "AZUREML_RUN_TOKEN" not in kept


def test_the_certificates_of_pip_serve_uv_too():
    assert uv_variables({"HOME": "/nonexistent", "PIP_CERT": "/ca.pem"})["SSL_CERT_FILE"] == "/ca.pem"


def test_pip_is_told_of_the_indexes_that_were_chosen_for_uv():
    told = pip_variables(
        {
            "UV_DEFAULT_INDEX": "https://packages.example/simple",
            "UV_INDEX": "ours=https://ours.example/simple https://more.example/simple",
            "UV_FIND_LINKS": "/wheels,/more",
            "SSL_CERT_FILE": "/certificates.pem",
            "PIP_TIMEOUT": "5",
            "AWS_SECRET_ACCESS_KEY": "never",
        }
    )
    assert told["PIP_INDEX_URL"] == "https://packages.example/simple"
    assert told["PIP_EXTRA_INDEX_URL"] == "https://ours.example/simple https://more.example/simple"
    assert told["PIP_FIND_LINKS"] == "/wheels /more"
    assert told["PIP_CERT"] == "/certificates.pem"
    assert told["PIP_TIMEOUT"] == "5"
    assert "AWS_SECRET_ACCESS_KEY" not in told
