"""What operators and compute targets say of a kind, read into the kind's own dataclass."""

from dataclasses import dataclass

import pytest

from runyard.compute.fields import option, options_of, read_body, read_variables
from runyard.compute.ray.kind import RaySettings, RayTarget
from runyard.compute.registry import ComputeKinds
from runyard.compute.sites import TargetParser, build_sites
from runyard.core.definitions.compute import ComputeDefinition
from runyard.core.errors import EngineError, InvalidArgument
from runyard.core.settings import read_settings
from runyard.server.wiring.core import SystemClock
from runyard.storage.sql.stores import open_stores


@dataclass(frozen=True)
class Batch:
    queue: str = option("Which queue.")
    share: float = option("How much.", 1.0)
    slots: int | None = option("How many.", None)
    is_urgent: bool = option("Whether at once.", False)

    def __post_init__(self) -> None:
        if self.queue == "secret":
            raise InvalidArgument("queue must not be 'secret'.")


def test_a_target_is_read_into_its_own_class() -> None:
    assert read_body(Batch, {"queue": "long", "share": 2}) == Batch("long", 2)
    named = [(one.name, one.type, one.is_required, one.help) for one in options_of(Batch)]
    assert named[0] == ("queue", str, True, "Which queue.")
    assert named[2] == ("slots", int, False, "How many.")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "queue is missing"),
        ({"queue": 7}, "queue must be a text, got 7"),
        ({"queue": "q", "slots": "4"}, "slots must be a whole number, got '4'"),
        ({"queue": "q", "slots": True}, "slots must be a whole number, got True"),
        ({"queue": "q", "slots": 2.5}, "slots must be a whole number"),
        ({"queue": "q", "share": float("nan")}, "share must be a number, got nan"),
        ({"queue": "q", "is_urgent": 1}, "is_urgent must be true or false"),
        ({"queue": "q" * 9, "extra": 1}, "'extra' is no setting of this compute kind. Known: queue, share"),
        ({"queue": "secret"}, "must not be 'secret'"),
        ({"queue": ["q"] * 1000}, "queue must be a text"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(given: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as refused:
        read_body(Batch, given)
    assert len(refused.value.problem) < 300


def test_variables_are_read_into_the_class_of_the_settings() -> None:
    variables = {"RUNYARD_BATCH_QUEUE": " long ", "RUNYARD_BATCH_SLOTS": "4", "RUNYARD_BATCH_IS_URGENT": "true"}
    assert read_variables(Batch, "RUNYARD_BATCH_", variables) == Batch("long", 1.0, 4, True)
    with pytest.raises(InvalidArgument, match="RUNYARD_BATCH_SLOTS must be a whole number, got 'x'"):
        read_variables(Batch, "RUNYARD_BATCH_", {"RUNYARD_BATCH_QUEUE": "q", "RUNYARD_BATCH_SLOTS": "x"})
    with pytest.raises(InvalidArgument, match="RUNYARD_BATCH_QUEUE: queue must not be 'secret'"):
        read_variables(Batch, "RUNYARD_BATCH_", {"RUNYARD_BATCH_QUEUE": "secret"})


def test_the_address_of_a_ray_cluster_is_taken() -> None:
    variables = {"RUNYARD_ENGINE": "ray", "RUNYARD_RAY_ADDRESS": " head:6379 "}
    targets = TargetParser(ComputeKinds(), "ray", variables)
    targets.check_settings()
    read = targets.read(ComputeDefinition({"max_nodes": 1}))
    assert (read.target, read.settings, read.place) == (RayTarget(), RaySettings("head:6379"), "head:6379")
    assert targets.read(ComputeDefinition({"engine": "ray", "address": "other:1"})).place == "other:1"
    assert targets.read(ComputeDefinition({"engine": "local"})).kind.name == "local"


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"RUNYARD_ENGINE": "slurm"}, "RUNYARD_ENGINE is 'slurm'"),
        ({"RUNYARD_ENGINE": "ray"}, "RUNYARD_RAY_ADDRESS"),
        ({"RUNYARD_RAY_ADDRESS": "a b"}, "RUNYARD_RAY_ADDRESS"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(home, variables, named) -> None:
    stores = open_stores(f"sqlite:///{home}/runyard.db")
    with pytest.raises(InvalidArgument, match=named):
        build_sites(read_settings(variables, home), home, stores.nodes, SystemClock(), url="")
    stores.close()


def test_a_stored_target_that_its_kind_cannot_use_is_named() -> None:
    targets = TargetParser(ComputeKinds())
    with pytest.raises(EngineError, match="'ray' cannot use this target: address must be HOST:PORT"):
        targets.read(ComputeDefinition({"engine": "ray", "address": "nowhere"}))
    with pytest.raises(EngineError, match="There is no compute kind 'gone'"):
        targets.read(ComputeDefinition({"engine": "gone"}))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"engine": ["ray"]}, "engine must be one of 'local', 'ray'"),
        ({"engine": "ray"}, "RUNYARD_RAY_ADDRESS is not set"),
        ({"engine": "ray", "is_attached": True}, "address is missing"),
        ({"engine": "local", "is_attached": True}, "'local' cannot be attached"),
        ({"engine": "ray", "address": "h:1", "settings": {"x": 1}}, "'x' is no setting of this compute kind"),
        ({"engine": "ray", "address": "h:1", "settings": [1]}, "settings must be an object"),
        ({"engine": "ray", "settings": {"address": "h:1"}}, "address is given in settings"),
        ({"settings": {"x": 1}}, "settings are given without engine"),
    ],
)
def test_a_new_target_is_checked_by_its_kind(body, said) -> None:
    with pytest.raises(InvalidArgument, match=said):
        TargetParser(ComputeKinds()).checked(ComputeDefinition(body))
