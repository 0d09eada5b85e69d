"""The commands of the pages for whoever runs a server. Blocks marked `bash` are run here and, those on backups, in
test_operations_page.py; blocks marked `sh` need an engine or systemd: tests/images runs them."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from runyard.cli.application import build_app
from tests.cli.conftest import RUNYARD
from tests.conftest import end_home
from tests.docs import test_operations_page

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
SERVER, OPERATIONS = DOCS / "server.md", DOCS / "operations.md"
A_RUN = "from azureml.core import *; Experiment(Workspace.from_config(), 'page').start_logging().complete()"
OURS = ("What to watch", "Health and figures", "Sizes", "Upgrade", "Move")


class Reader:
    """Somebody who does what a page says, in a folder and a home of their own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = str(free.getsockname()[1])
        self.folder, self.home = folder, folder / "home"
        self.variables = {
            **os.environ,
            "PATH": f"{RUNYARD.parent}:{os.environ['PATH']}",
            "RUNYARD_HOME": str(self.home),
            "NEW_HOME": str(folder / "new-home"),
            "BACKUPS": str(folder / "backups"),
        }

    def follow(self, block: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.here(block)],
            env=self.variables,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, (block, done.stdout, done.stderr)
        return done.stdout

    def here(self, block: str) -> str:
        """The page's host and port are those of this test."""
        return block.replace("train.example", "localhost").replace("8443", self._port)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    yield made
    for home in (made.home, tmp_path / "new-home"):
        end_home(home)


def blocks(page: Path, heading: str) -> list[str]:
    section = page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^```bash\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found


def headings_with_commands(page: Path) -> set[str]:
    sections = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {section.partition("\n")[0] for section in sections if "\n```bash\n" in section}


def test_every_section_with_commands_is_run():
    assert headings_with_commands(SERVER) == {"Starting it", "On users' machines", "Certificates"}
    assert headings_with_commands(OPERATIONS) == {*OURS, *test_operations_page.SECTIONS}


def test_the_commands_of_the_server_page_make_a_service_that_others_reach(reader):
    (make_certificate,) = blocks(SERVER, "Certificates")
    serve, look = blocks(SERVER, "Starting it")
    (ask,) = blocks(SERVER, "On users' machines")
    reader.follow(make_certificate)
    serving = subprocess.Popen(
        shlex.split(reader.here(serve)), env=reader.variables, cwd=reader.folder, stderr=subprocess.PIPE, text=True
    )
    assert serving.stderr is not None
    watchdog = threading.Timer(60, serving.kill)
    watchdog.start()
    try:
        line = serving.stderr.readline()
        assert f"serves {reader.home} at http://127.0.0.1:" in line
        assert "https://localhost:" in line
        assert f"serves {reader.home}" in reader.follow(look)
        (reader.folder / "token").write_text((reader.home / "token").read_text())
        reader.follow(ask)
    finally:
        watchdog.cancel()
        serving.send_signal(signal.SIGTERM)
        serving.wait(30)
        serving.stderr.close()


@pytest.mark.needs("curl")
def test_the_commands_of_day_two_work(reader):
    reader.follow(f"runyard up; {shlex.quote(sys.executable)} -c {shlex.quote(A_RUN)}")
    for heading in OURS:
        for block in blocks(OPERATIONS, heading):
            reader.follow(block)


def programs(page: Path) -> list[str]:
    """Commands of ours within sentences and tables."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`(?:[A-Z_]+=\S+ )*(runyard [a-z][^`\n]*)`", text)


@pytest.mark.parametrize("command", sorted({*programs(SERVER), *programs(OPERATIONS)}))
def test_a_command_in_a_sentence_is_one_that_there_is(command):
    group, words = get_command(build_app(in_terminal=False)), shlex.split(command)[1:]
    while words and hasattr(group, "list_commands") and words[0] in group.list_commands(None):
        group = group.get_command(None, words.pop(0))
    assert not hasattr(group, "list_commands"), f"{command} names no whole command"
    known = {option for parameter in group.params for option in [*parameter.opts, *parameter.secondary_opts]}
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known
