import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import RUNYARD, Shell
from tests.conftest import end_home
from tests.forked_processes import ForkServer

pytestmark = pytest.mark.slow

Runs = dict[str, str]


def test_the_service_comes_and_goes(tmp_path: Path, fork_server: ForkServer) -> None:
    shell = Shell(tmp_path / "home", tmp_path, fork_server)
    assert shell("status").returncode == 4
    assert json.loads(shell("status", "-o", "json").stdout)["running"] is False
    try:
        assert shell("up").returncode == 0
        running = json.loads(shell("status", "-o", "json").stdout)
        assert running["running"]
        assert running["kept"]
        assert shell("up").returncode == 0
        assert json.loads(shell("status", "-o", "json").stdout)["pid"] == running["pid"]
        _check_status_from_elsewhere(Shell(tmp_path / "users", tmp_path, fork_server), shell.home, running["url"])
    finally:
        assert shell("down").returncode == 0
        assert shell("status").returncode == 4
        assert "No service" in shell("down").stdout
        end_home(shell.home)


def _check_status_from_elsewhere(user: Shell, home: Path, url: str) -> None:
    user.variables.update(RUNYARD_URL=url, RUNYARD_TOKEN=(home / "token").read_text(encoding="utf-8").strip())
    assert json.loads(user("status", "-o", "json").stdout)["url"] == url
    user.variables["RUNYARD_TOKEN"] = "wrong"
    assert "Set RUNYARD_TOKEN to" in user("runs", "list").stderr
    user.variables["RUNYARD_URL"] = "http://127.0.0.1:9"
    refused = user("status")
    assert refused.returncode == 4
    assert "Check RUNYARD_URL" in refused.stderr


def test_models_can_be_listed_shown_and_taken_home(shell: Shell, runs: Runs, tmp_path: Path) -> None:
    (listed,) = [line for line in shell("models", "list").stdout.splitlines() if line.startswith("net")]
    assert listed.split()[-2:] == ["owner", runs["good"]]
    assert json.loads(shell("models", "list", "--created-by", "owner", "-o", "json").stdout)[0]["created_by"] == "owner"
    assert json.loads(shell("models", "list", "--created-by", "run:x", "-o", "json").stdout) == []
    refused = shell("models", "list", "--created-by", "ada")
    assert (refused.returncode, "give `owner`, or `run:` and the id of a run" in refused.stderr) == (2, True)
    shown = shell("models", "show", "net").stdout
    assert "model.txt" in shown
    assert "created by  owner" in shown
    assert runs["good"] in shown
    assert shell("models", "download", "net", "--target", tmp_path).returncode == 0
    assert (tmp_path / "model.txt").read_text(encoding="utf-8") == "weights"


def test_a_download_replaces_nothing_unasked(shell: Shell, runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text("mine", encoding="utf-8")
    refused = shell("models", "download", "net", "--target", tmp_path)
    assert refused.returncode == 1
    assert "--overwrite" in refused.stderr
    assert (tmp_path / "model.txt").read_text(encoding="utf-8") == "mine"
    assert shell("models", "download", "net", "--target", tmp_path, "--overwrite").returncode == 0
    assert (tmp_path / "model.txt").read_text(encoding="utf-8") == "weights"


@pytest.mark.parametrize("command", [("models", "show", "nothing"), ("runs", "show", "nothing"), ("runs", "logs", "x")])
def test_what_is_not_there_exits_with_three(shell: Shell, runs: Runs, command: tuple[str, ...]) -> None:
    missing = shell(*command)
    assert missing.returncode == 3
    assert missing.stderr.startswith("Error: ")
    assert len(missing.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "command", [("runs", "lst"), ("runs", "list", "--limit", "0"), ("runs", "list", "--above", "1")]
)
def test_wrong_usage_exits_with_two(shell: Shell, command: tuple[str, ...]) -> None:
    assert shell(*command).returncode == 2


def test_a_service_elsewhere_that_does_not_answer_exits_with_four(shell: Shell) -> None:
    elsewhere = {**shell.variables, "RUNYARD_URL": "http://127.0.0.1:9", "RUNYARD_TOKEN": "x"}
    silent = shell("runs", "list", env=elsewhere)
    assert silent.returncode == 4
    assert "127.0.0.1:9" in silent.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("experiments", "list"),
        ("models", "list"),
        ("compute", "list"),
        ("environments", "list"),
        ("environments", "prune"),
        ("du",),
        ("gc",),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_every_answer_can_be_json(shell: Shell, runs: Runs, command: tuple[str, ...]) -> None:
    assert shell(*command).returncode == 0
    json.loads(shell(*command, "-o", "json").stdout)


def test_the_config_file_that_holds_chooses_the_workspace(shell: Shell, runs: Runs, tmp_path: Path) -> None:
    config = {"subscription_id": "s", "resource_group": "g", "workspace_name": "elsewhere"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    missing = shell("models", "list", cwd=tmp_path)
    assert missing.returncode == 3
    assert "elsewhere" in missing.stderr
    assert shell("models", "list", "-w", "default", cwd=tmp_path).returncode == 0


def test_a_pipe_gets_no_colour_and_a_terminal_does(shell: Shell, runs: Runs) -> None:
    assert "\x1b" not in shell("runs", "list").stdout
    assert "\x1b[" in in_a_terminal(shell, "runs", "list")


def in_a_terminal(shell: Shell, *arguments: str) -> str:
    ours, theirs = pty.openpty()
    variables = {**shell.variables, "TERM": "xterm-256color"}
    process = subprocess.Popen([RUNYARD, *arguments], stdout=theirs, stderr=theirs, env=variables, cwd=shell.folder)
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 1 << 16):
            shown += block
    except OSError:
        pass  # a terminal that nobody holds open any more ends with an error
    os.close(ours)
    process.wait(60)
    return shown.decode()


def test_the_version_is_one_line(shell: Shell) -> None:
    assert shell("--version").stdout.startswith("runyard ")


def test_no_command_loads_the_service_or_its_database_before_it_is_called() -> None:
    script = (
        "import pkgutil, sys; from runyard.cli.application import COMMANDS\n"
        "for one in COMMANDS.values(): pkgutil.resolve_name(one.target)\n"
        "sys.exit(bool({'fastapi', 'sqlalchemy', 'uvicorn'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
