from datetime import UTC, datetime, timedelta

import pytest

from runyard.cli.display import duration_of

LATER = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
EARLIER = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


@pytest.mark.parametrize("ended_at", [None, EARLIER], ids=["goes on", "ended"])
def test_no_duration_is_negative_when_a_clock_was_stepped_back(ended_at: str | None) -> None:
    assert duration_of({"started_at": LATER, "ended_at": ended_at}) == "0.00 s"
