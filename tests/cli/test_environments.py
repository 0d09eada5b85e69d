import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.conftest import end_home
from tests.forked_processes import ForkServer

pytestmark = pytest.mark.slow

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
SUBMIT = """
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
environment = Environment("small")
environment.python.conda_dependencies.set_pip_requirements(["iniconfig==2.0.0"])
environment.python.conda_dependencies.set_python_version("3.11")
run = Experiment(Workspace.from_config(), "environments").submit(
    ScriptRunConfig("source", "train.py", environment=environment))
run.wait_for_completion(raise_on_error=False)
environment.register(Workspace.from_config())
print(run.id)
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[Shell]:
    """A home of its own: these tests change what workspaces build from."""
    folder = tmp_path_factory.mktemp("environments")
    opened = Shell(folder / "home", folder, fork_server)
    (folder / "source").mkdir()
    (folder / "source" / "train.py").write_text("import iniconfig; print(iniconfig.__name__)", encoding="utf-8")
    yield opened
    end_home(opened.home)


@pytest.fixture(scope="module")
def run(shell: Shell) -> str:
    """A run whose environment was built, and is registered as `small`."""
    return shell.python(SUBMIT).split()[-1]


@pytest.fixture
def settings(shell: Shell, run: str) -> Iterator[Shell]:
    yield shell
    names = json.loads(shell("environments", "settings", "-o", "json").stdout)
    shell("environments", "settings", *(f"--reset={name}" for name in names))


def shown(shell: Shell) -> dict[str, object]:
    found: dict[str, object] = json.loads(shell("environments", "settings", "-o", "json").stdout)
    return found


def test_an_environment_is_shown_with_its_packages_and_its_lock(shell: Shell, run: str) -> None:
    built = json.loads(shell("environments", "list", "-o", "json").stdout)
    key = next(one["key"] for one in built if any("iniconfig" in package for package in one["packages"]))
    text = shell("environments", "show", key).stdout
    assert "virtual environment" in text
    assert ["iniconfig", "2.0.0"] in [line.split() for line in text.splitlines()]
    lock = shell("environments", "show", key, "--lock").stdout
    assert "iniconfig==2.0.0" in lock
    assert "--hash=sha256:" in lock
    assert lock.startswith("# python: 3.11.")


def test_a_registered_environment_is_shown_as_it_was_asked_for(shell: Shell, run: str) -> None:
    text = shell("environments", "show", "small").stdout
    assert "iniconfig==2.0.0" in text
    assert json.loads(shell("environments", "show", "small", "-o", "json").stdout)["version"] == 1


@pytest.mark.parametrize("options", [(), ("--lock",)])
def test_an_environment_that_is_not_there_exits_with_three(shell: Shell, run: str, options: tuple[str, ...]) -> None:
    missing = shell("environments", "show", "nothing", *options)
    assert missing.returncode == 3
    assert "nothing" in missing.stderr


def test_a_build_that_is_in_the_cache_succeeds_at_once(shell: Shell, run: str) -> None:
    done = shell("environments", "build", "small", "-o", "json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["state"] == "Succeeded"
    assert record["environment_key"] in {one["key"] for one in _listed(shell)}


def test_a_build_prints_its_log_and_what_it_made(shell: Shell, run: str) -> None:
    (shell.folder / "requirements.txt").write_text("iniconfig==1.1.1\n", encoding="utf-8")
    done = shell("environments", "build", "--requirements", "requirements.txt")
    assert done.returncode == 0, done.stderr
    assert "iniconfig" in done.stderr
    assert done.stdout.split()[1] in {one["key"] for one in _listed(shell)}


def test_a_build_that_fails_says_the_cause_and_the_next_step(shell: Shell, run: str) -> None:
    (shell.folder / "wrong.txt").write_text("iniconfig==99.99\n", encoding="utf-8")
    failed = shell("environments", "build", "--requirements", "wrong.txt")
    assert failed.returncode == 1
    assert "Error: no_such_version: " in failed.stderr
    assert "iniconfig==99.99" in failed.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("small", "--image", "debian:12"),
        ("--conda-file", "requirements.txt", "--requirements", "requirements.txt"),
        ("--image", "debian:12", "--dockerfile", "requirements.txt"),
    ],
    ids=" ".join,
)
def test_a_build_of_nothing_or_of_two_things_is_wrong_usage(shell: Shell, arguments: tuple[str, ...]) -> None:
    (shell.folder / "requirements.txt").write_text("iniconfig==1.1.1\n", encoding="utf-8")
    assert shell("environments", "build", *arguments).returncode == 2


def test_a_run_is_done_again_with_the_packages_that_it_had(shell: Shell, run: str) -> None:
    again = shell("runs", "rerun", run, "-f")
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == "iniconfig"
    other = shell("runs", "rerun", run, "-e", "elsewhere").stdout.strip()
    assert shell("runs", "wait", other).returncode == 0
    record = json.loads(shell("runs", "show", other, "-o", "json").stdout)
    assert record["experiment"] == "elsewhere"
    before = json.loads(shell("runs", "show", run, "-o", "json").stdout)
    assert record["environment_lock"] == before["environment_lock"]


def test_a_run_that_is_not_there_cannot_be_done_again(shell: Shell, run: str) -> None:
    assert shell("runs", "rerun", "nothing").returncode == 3


def test_settings_are_shown_with_what_holds_without_any(settings: Shell) -> None:
    text = settings("environments", "settings").stdout
    assert ["without_engine", "refuse"] in [line.split() for line in text.splitlines()]
    assert ["offline", "false"] in [line.split() for line in text.splitlines()]


def test_a_password_is_taken_from_the_shell_and_shown_to_nobody(settings: Shell) -> None:
    variables = {**settings.variables, "INDEX_PASSWORD": "hunter2"}
    given = "index_url=https://ada:${INDEX_PASSWORD}@packages.example/simple"
    changed = settings("environments", "settings", given, env=variables)
    assert changed.returncode == 0, changed.stderr
    assert "https://ada:****@packages.example/simple" in changed.stdout
    assert "hunter2" not in changed.stdout + settings("environments", "settings", "-o", "json").stdout
    assert b"hunter2" not in (settings.home / "runyard.db").read_bytes()


def test_lists_and_channels_are_given_entry_by_entry(settings: Shell) -> None:
    lists = ("find_links=/srv/wheels", "find_links=/srv/torch", "conda_channels=conda-forge=https://mirror.example/cf")
    assert settings("environments", "settings", *lists, "offline=yes").returncode == 0
    found = shown(settings)
    assert found["find_links"] == ["/srv/wheels", "/srv/torch"]
    assert found["conda_channels"] == {"conda-forge": "https://mirror.example/cf"}
    assert found["offline"] is True
    assert settings("environments", "settings", "--reset", "find_links", "--reset", "offline").returncode == 0
    assert shown(settings)["find_links"] == []
    assert shown(settings)["offline"] is False


def test_certificates_are_read_from_a_file(settings: Shell, tmp_path: Path) -> None:
    bundle = tmp_path / "lan.pem"
    bundle.write_text(CERTIFICATE * 2, encoding="utf-8")
    changed = settings("environments", "settings", f"ca_bundle={bundle}")
    assert changed.returncode == 0, changed.stderr
    assert "2 certificates" in changed.stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("index=https://packages.example", "Known: index_url"),
        ("index_url", "name=value"),
        ("offline=perhaps", "true or false"),
        ("conda_channels=conda-forge", "names no address"),
        ("ca_bundle=/nothing/there.pem", "cannot be read"),
        ("index_url=https://${NOBODY_SET_THIS}@packages.example", "which is not set"),
        ("without_engine=maybe", "without_engine"),
        ("conda=sometimes", "conda"),
    ],
)
def test_a_setting_that_cannot_be_right_is_refused(settings: Shell, given: str, said: str) -> None:
    refused = settings("environments", "settings", given)
    assert refused.returncode == 2
    assert said in refused.stderr


def test_a_file_without_certificates_is_no_bundle(settings: Shell, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("-----BEGIN PRIVATE KEY-----", encoding="utf-8")
    refused = settings("environments", "settings", f"ca_bundle={tmp_path / 'key.pem'}")
    assert refused.returncode == 2
    assert "holds no certificate" in refused.stderr


def _listed(shell: Shell) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(shell("environments", "list", "-o", "json").stdout)
    return found
