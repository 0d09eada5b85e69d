"""Run kinds that cannot be used are named and left out: the service starts without them."""

import logging
import sys
from typing import Any
from unittest.mock import MagicMock

import pytest

from runyard.core.plugins import Plugins, load_plugins
from runyard.runs.kinds import registry
from runyard.runs.kinds.kind import RunKind


class Leaving(RunKind):
    name, title = "leaves", "run that leaves"

    def __init__(self, tools: Any) -> None:
        sys.exit("no licence")


class OddType(RunKind):
    name, title, type = "odd", "run of an odd type", ["a", "list"]  # type: ignore[assignment]


@pytest.mark.parametrize(("kind", "why"), [(Leaving, "SystemExit: no licence"), (OddType, "its type must be a text")])
def test_it_is_named_and_left_out(monkeypatch, caplog, kind, why):
    ours = load_plugins(registry.GROUP)
    monkeypatch.setattr(registry, "load_plugins", lambda group: Plugins({**ours.found, kind.name: kind}))
    with caplog.at_level(logging.WARNING):
        kinds = registry.load_kinds(MagicMock())
    assert kinds.of_type("anything", is_interactive=False).name == "script"
    assert f"Plug-in {kind.name} was left out" in caplog.text
    assert why in caplog.text
