"""What a worker tells of itself is taken within bounds: a script runs in it."""

import json

import pytest

from runyard.serving.workers.frames import FrameKind, encode
from runyard.serving.workers.link import InitFailure, WorkerFacts, WorkerLink


class Owner:
    def __init__(self) -> None:
        self.facts: WorkerFacts | None = None
        self.failure: InitFailure | None = None
        self.complaint = ""

    def became_ready(self, facts: WorkerFacts) -> None:
        self.facts = facts

    def failed(self, failure: InitFailure) -> None:
        self.failure = failure

    def closed(self, why: str) -> None:
        raise AssertionError(why)

    def hung(self, why: str) -> None:
        self.complaint = why


def test_a_schema_and_notes_of_any_size_are_kept_within_bounds() -> None:
    owner = Owner()
    told = {"pid": 1, "schema": {"sample_input": ["x" * 1_000_000]}, "notes": ["n" * 10_000] * 500}
    WorkerLink(owner).data_received(encode(FrameKind.READY, json.dumps(told).encode()))
    assert owner.facts is not None
    assert owner.facts.schema == {}
    assert (len(owner.facts.notes), len(owner.facts.notes[0])) == (50, 1000)


@pytest.mark.parametrize("kind", [FrameKind.READY, FrameKind.FAILED])
def test_megabytes_about_itself_are_no_facts(kind: int) -> None:
    owner = Owner()
    WorkerLink(owner).data_received(encode(kind, json.dumps({"pid": 1, "problem": "x" * (9 << 20)}).encode()))
    assert (owner.facts, owner.failure) == (None, None)
    assert "bytes about itself" in owner.complaint
