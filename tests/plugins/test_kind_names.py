"""Kinds of runs are known by name in their own package alone."""

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "packages/runyard/src/runyard"


@pytest.mark.parametrize(
    ("name", "own"),
    [
        (r"\bSWEEP_TYPE\b", "runs/kinds/sweep"),
        (r"\bSweepKind\b|kinds\.sweep\.kind\b", "runs/kinds/sweep"),
        (r"\bBUILD_TYPE\b", "runs/kinds/build.py"),
    ],
)
def test_a_kind_is_known_by_name_in_its_own_package_alone(name: str, own: str) -> None:
    found = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if re.search(name, path.read_text())]
    assert [path for path in found if not path.startswith(own)] == []
    assert found
