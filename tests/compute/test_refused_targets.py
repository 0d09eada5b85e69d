"""A target whose cluster does not answer is refused before anything is opened for it."""

from types import SimpleNamespace
from typing import Any

import pytest

from runyard.core.definitions.compute import ComputeDefinition
from runyard.core.errors import EngineError
from runyard.runs.compute_targets import ComputeRules


def test_no_site_is_opened_for_a_target_that_is_refused() -> None:
    """A site is kept by its place: a later target there would be given what was made for the refused one."""
    opened: list[Any] = []

    def refuse(target: ComputeDefinition) -> None:
        raise EngineError("Nobody answers there.")

    targets = SimpleNamespace(checked=lambda new: {"engine": "batch", "address": "10.0.0.5:1"})
    sites: Any = SimpleNamespace(targets=targets, require=refuse)
    places: Any = SimpleNamespace(check_cluster=opened.append)
    anybody: Any = SimpleNamespace(workspace=lambda *asked: None)
    unused: Any = None
    rules = ComputeRules(unused, unused, places, unused, sites, anybody)
    with pytest.raises(EngineError, match="Nobody answers"):
        rules.checked(
            unused, "vision", "far", ComputeDefinition({"engine": "batch", "address": "10.0.0.5:1", "max_nodes": 1})
        )
    assert opened == []
