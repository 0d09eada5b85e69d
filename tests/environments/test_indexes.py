from pathlib import Path

import pytest

from runyard.environments.indexes import index_options, pip_variables, uv_variables


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    config = tmp_path / ".config/pip/pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text("[global]\nfind-links = /wheels\nindex-url = https://index.example/simple\n")
    return {"HOME": str(tmp_path)}


def test_the_settings_of_pip_are_told_to_uv(home):
    options = index_options(home)
    assert options[options.index("--find-links") + 1] == "/wheels"
    assert options[options.index("--default-index") + 1] == "https://index.example/simple"


def test_variables_of_pip_win_over_its_files(home):
    options = index_options({**home, "PIP_FIND_LINKS": "/mine /yours"})
    assert [options[at + 1] for at, option in enumerate(options) if option == "--find-links"] == ["/mine", "/yours"]


def test_all_indexes_are_looked_at_when_there_are_several(home):
    options = index_options({**home, "PIP_EXTRA_INDEX_URL": "https://more.example/simple"})
    assert options[-4:] == ["--index", "https://more.example/simple", "--index-strategy", "unsafe-best-match"]


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL"])
def test_a_choice_made_for_uv_itself_wins(home, name):
    assert "--default-index" not in index_options({**home, name: "https://uv.example/simple"})
    assert uv_variables({**home, name: "https://uv.example/simple"})[name] == "https://uv.example/simple"


def test_a_host_that_pip_trusts_is_trusted_by_uv(home):
    options = index_options({**home, "PIP_TRUSTED_HOST": "index.example"})
    assert options[2:4] == ["--allow-insecure-host", "index.example"]


def test_a_damaged_pip_configuration_is_passed_over(home):
    Path(home["HOME"], ".config/pip/pip.conf").write_text("find-links = [global")
    assert "--default-index" not in index_options(home)


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
