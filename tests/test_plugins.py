"""Plug-ins are found by entry points; one that is broken is named and left out."""

from pathlib import Path

import pytest

from runyard.core.plugins import load_plugins

GROUP = "runyard.tests_of_plugins"


def test_plugins_of_a_group_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, "sound = json:dumps", monkeypatch)
    assert set(load_plugins(GROUP).found) == {"sound"}
    assert load_plugins("runyard.no_such_group").found == {}


def test_a_broken_plugin_is_named_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broken_at_import.py").write_text("1 / 0")
    lines = "sound = json:dumps\nbroken = broken_at_import:KIND\nmissing = json:no_such\nabsent = no_such_module:KIND"
    _install(tmp_path, lines, monkeypatch)
    plugins = load_plugins(GROUP)
    assert set(plugins.found) == {"sound"}
    assert set(plugins.left_out) == {"broken", "missing", "absent"}
    assert plugins.left_out["broken"] == "broken_at_import:KIND: ZeroDivisionError: division by zero"
    assert "Plug-in broken was left out" in caplog.text


def test_ours_wins_where_two_have_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _install(tmp_path, "same = json:dumps", monkeypatch)
    _install(tmp_path, "same = runyard.core.version:VERSION", monkeypatch, name="later")
    [found] = load_plugins(GROUP).found.values()
    assert isinstance(found, str)
    assert "Plug-in same = json:dumps was left out: the name is taken." in caplog.text


def _install(folder: Path, lines: str, monkeypatch: pytest.MonkeyPatch, name: str = "other") -> None:
    facts = folder / f"{name}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}\n")
    monkeypatch.syspath_prepend(folder)
