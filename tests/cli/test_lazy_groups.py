"""Commands are imported when they are called; help and completion come from tables."""

import inspect
import os
import subprocess
import sys

import pytest
from typer.main import get_command

from runyard.cli.application import COMMANDS, build_app
from runyard.cli.compute import WITH_KINDS

TABLES = {
    **{(name,): later for name, later in COMMANDS.items()},
    **{("compute", n): later for n, later in WITH_KINDS.items()},
}
PROGRAM = "from runyard.cli.main import main; main()"
PRINT_OWN = (
    "import atexit, sys\n"
    "atexit.register(lambda: print('|', *(n for n in sys.modules if n.startswith('runyard.')), file=sys.stderr))\n"
)
SHARED = {"application", "connection", "display", "exits", "lazy_group", "main"}
"""Modules of runyard.cli that every command loads."""


def loaded_by(*words: str) -> set[str]:
    """Modules below runyard.cli that a command imports."""
    command = [sys.executable, "-c", PRINT_OWN + PROGRAM, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    names = done.stderr.rpartition("|")[2].split()
    return {name.removeprefix("runyard.cli.") for name in names if name.startswith("runyard.cli.")}


def completed(*words: str) -> set[str]:
    """What bash is offered for the last word."""
    asked = {"_RUNYARD_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    program = f"import sys; sys.argv = ['runyard']; {PROGRAM}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **asked})
    return set(done.stdout.split())


@pytest.mark.parametrize("path", TABLES, ids=" ".join)
def test_the_table_says_what_the_command_says(path: tuple[str, ...]) -> None:
    command = get_command(build_app(in_terminal=False))
    for name in path:
        command = command.get_command(None, name)  # type: ignore[attr-defined]
    first_paragraph = inspect.cleandoc(command.help or "").split("\n\n")[0]
    assert TABLES[path].help == " ".join(first_paragraph.split())


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_the_program_itself_loads_no_command(word: str) -> None:
    assert loaded_by(word) == SHARED


def test_a_group_loads_its_own_commands() -> None:
    assert loaded_by("runs", "--help") == SHARED | {"output", "run_list", "run_logs", "run_transfer", "runs"}
    assert loaded_by("compute", "--help") == SHARED | {"output", "compute"}


def test_completion_goes_through_the_tables() -> None:
    assert completed("runyard", "run") == {"runs"}
    assert completed("runyard", "runs", "ca") == {"cancel"}
    assert completed("runyard", "compute", "k") == {"kinds"}
    assert "--follow" in completed("runyard", "logs", "--fo")


def test_a_misspelled_command_is_corrected() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, "doctr"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, "Did you mean 'doctor'?" in done.stderr) == (2, True)
