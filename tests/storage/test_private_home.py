"""A home is its owner's alone, whatever it was before the service came."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.run_folders import environments_root, scripts_root
from runyard.server.lifecycle import service_status, start_service, stop_service
from runyard.storage.home import link_run_folders, prepare_home
from runyard_sdk.errors import ServiceUnavailable
from runyard_sdk.home import ensured_home, why_not_ours
from tests.wire_client import WireClient

pytestmark = pytest.mark.slow

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def readable_by_another(home: Path) -> list[str]:
    """Paths below the home that another user can read who has come as far as the home."""
    paths = [".", *(str(path.relative_to(home)) for path in home.rglob("*"))]
    result, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.chdir(home)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.write(told, json.dumps([path for path in paths if os.access(path, os.R_OK)]).encode())
        os._exit(0)
    os.close(told)
    with os.fdopen(result) as answer:
        found = json.load(answer)
    os.waitpid(child, 0)
    return found


def runyard(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from runyard.cli.main import main; main()", *words]
    variables = {**os.environ, "RUNYARD_HOME": str(home)}
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder of another user."""
    if os.geteuid() != 0:
        return Path("/")
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    return folder


@pytest.fixture
def opened_home(home: Path) -> Path:
    """As a version before this one, or an administrator, may have left it: open to everybody."""
    start_service(home, keep=True)
    assert stop_service(home)
    (home / "attempts" / "old.1" / "work").mkdir(parents=True)
    (home / "attempts" / "old.1" / "plan.json").write_text('{"token": "secret"}')
    (home / "services" / "old").mkdir(parents=True)
    (home / "services" / "old" / "state.json").write_text("{}")
    for path in [home, *home.rglob("*")]:
        if not path.is_symlink():
            with suppress(FileNotFoundError):  # the agent is just leaving, with its socket
                path.chmod(0o755 if path.is_dir() else 0o644)
    return home


def test_a_home_that_was_open_is_closed_and_that_is_said_once(opened_home: Path) -> None:
    start_service(opened_home, keep=True)
    assert opened_home.stat().st_mode & 0o777 == 0o700
    for name in ("token", "secrets.key", "runyard.db", "attempts/old.1/plan.json", "services/old/state.json"):
        if (opened_home / name).exists():
            assert (opened_home / name).stat().st_mode & 0o077 == 0, name
    assert (opened_home / "attempts/old.1").stat().st_mode & 0o077 == 0
    stop_service(opened_home)
    start_service(opened_home, keep=True)
    assert (opened_home / "service.log").read_text().count("Other users could look into") == 1


@as_root
def test_no_other_user_can_read_a_file_of_the_home(opened_home: Path) -> None:
    assert "token" in readable_by_another(opened_home)
    facts = start_service(opened_home, keep=True)
    client = WireClient(facts["url"], facts["token"], workspace="default")
    client.put("/workspaces/default", {"exist_ok": True})
    client.interactive_run("private")
    client.post("/runs/private/logs/azureml-logs/70_driver_log.txt?offset=0", b"said\n")
    assert readable_by_another(opened_home) == []


def test_new_files_of_the_home_are_private_by_themselves(home: Path) -> None:
    start_service(home, keep=True)
    modes = {path.name: path.lstat().st_mode & 0o077 for path in home.iterdir()}
    assert {name for name, mode in modes.items() if mode} == set()


def test_a_home_of_another_user_is_refused_by_name(foreign: Path) -> None:
    owner = foreign.stat().st_uid
    with pytest.raises(InvalidArgument, match=rf"{foreign} belongs to .*{owner}") as refused:
        start_service(foreign, keep=False)
    assert "RUNYARD_HOME" in refused.value.hint
    with pytest.raises(InvalidArgument, match="belongs to"):
        service_status(foreign)


@pytest.mark.parametrize("words", [["status"], ["down"], ["up"], ["serve"], ["runs", "list"], ["doctor"]], ids=" ".join)
def test_every_command_refuses_it_in_one_sentence(foreign: Path, words: list[str]) -> None:
    done = runyard(foreign, *words)
    assert done.returncode != 0
    assert "belongs to" in done.stderr
    assert "RUNYARD_HOME" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (foreign / "start-error.json").exists()


def test_the_sdk_refuses_it_too(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNYARD_HOME", str(foreign))
    with pytest.raises(ServiceUnavailable, match="belongs to"):
        ensured_home()


def test_a_home_that_others_could_replace_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(InvalidArgument, match="every user"):
        prepare_home(shared / "home")
    shared.chmod(0o1777)
    prepare_home(shared / "home")
    assert (shared / "home").stat().st_mode & 0o777 == 0o700


def test_a_home_may_be_a_link_of_its_owner(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    prepare_home(tmp_path / "link")
    if os.geteuid() == 0:
        os.chown(tmp_path / "link", NOBODY, NOBODY, follow_symlinks=False)
        assert "The link at" in (why_not_ours(str(tmp_path / "link")) or ("",))[0]


def test_folders_of_runs_can_lie_outside_of_the_home(home: Path, tmp_path: Path) -> None:
    link_run_folders(home, tmp_path / "runs")
    assert scripts_root(home) == tmp_path / "runs" / "scripts"
    assert environments_root(home) == tmp_path / "runs" / "environments"
    assert scripts_root(home).stat().st_mode & 0o777 == 0o711
    link_run_folders(home, None)
    assert scripts_root(home) == tmp_path / "runs" / "scripts", "the home remembers"
    (scripts_root(home) / "run1.1").mkdir()
    with pytest.raises(InvalidArgument, match=r"RUNYARD_RUN_ROOT.*still in use"):
        link_run_folders(home, tmp_path / "others")
    (scripts_root(home) / "run1.1").rmdir()
    link_run_folders(home, tmp_path / "others")
    assert scripts_root(home) == tmp_path / "others" / "scripts"
