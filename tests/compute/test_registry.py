"""Kinds of compute come by entry points; a broken one is named and left out; each is imported on first use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.compute.registry import GROUP, ComputeKinds
from runyard.core.errors import EngineError
from tests.plugins.installing import install

BROKEN = """
crashes = crashing_kind:KIND
leaves = leaving_kind:KIND
absent = no_such_module:KIND
odd = json:dumps
alias = runyard.compute.local.kind:KIND
local = json:loads
"""
IMPORTS = """
import json, sys
from runyard.compute.registry import ComputeKinds
known = ComputeKinds()
names = known.names()
before = sorted(name for name in sys.modules if name.startswith("runyard.compute.") and name.count(".") > 2)
known.get("local")
print(json.dumps([names, before, "runyard.compute.ray.kind" in sys.modules, "ray" in sys.modules]))
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ComputeKinds:
    (tmp_path / "crashing_kind.py").write_text("1 / 0")
    (tmp_path / "leaving_kind.py").write_text("raise SystemExit('no licence')")
    install(tmp_path, "other", GROUP, BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    return ComputeKinds()


def test_our_own_kinds_come_through_the_same_door() -> None:
    assert set(ComputeKinds().names()) == {"local", "ray"}
    assert ComputeKinds().get("local").title == "This machine"


def test_broken_kinds_are_named_and_left_out(broken: ComputeKinds, caplog: pytest.LogCaptureFixture) -> None:
    assert set(broken.load_all()) == {"local", "ray"}
    left_out = broken.left_out()
    assert left_out["crashes"] == "crashing_kind:KIND: ZeroDivisionError: division by zero"
    assert left_out["leaves"] == "leaving_kind:KIND: SystemExit: no licence"
    assert "no_such_module" in left_out["absent"]
    assert left_out["odd"] == "its entry point names a function, not a ComputeKind."
    assert left_out["alias"] == "it calls itself 'local'."
    assert left_out["local = json:loads"] == "the name is taken."
    assert "Plug-in crashes was left out" in caplog.text


def test_who_asks_for_a_broken_kind_reads_why(broken: ComputeKinds) -> None:
    with pytest.raises(EngineError, match="'crashes' was left out: crashing_kind:KIND: ZeroDivisionError"):
        broken.get("crashes")
    with pytest.raises(EngineError, match=r"There is no compute kind 'slurm'\. Known: 'absent', 'alias'"):
        broken.get("slurm")


def test_names_are_listed_without_importing_a_kind() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True, timeout=60)
    names, before, has_ray_kind, has_ray = json.loads(done.stdout)
    assert {"local", "ray"} <= set(names)
    assert (before, has_ray_kind, has_ray) == ([], False, False)


@pytest.mark.parametrize("command", ["--version", "compute --help", "runs --help"])
def test_the_command_line_starts_without_looking_for_kinds(command: str) -> None:
    watched = (
        "import sys; from runyard.cli.application import build_app\n"
        f"try: build_app(in_terminal=False)({command.split()})\n"
        "except SystemExit: pass\n"
        "print(sorted(name for name in sys.modules if name.startswith(('runyard.compute', 'runyard.core.plugins'))))"
    )
    done = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
