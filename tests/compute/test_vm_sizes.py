import pytest

from runyard.compute.vm_sizes import BUILT_IN, NodeResources, edited_table, node_resources
from runyard.core.errors import InvalidArgument


@pytest.mark.parametrize(
    ("size", "resources"),
    [
        ("STANDARD_D2_V2", NodeResources(2, 0, 7)),
        ("Standard_NC6", NodeResources(6, 1, 56)),
        (" standard_nc6s_v3 ", NodeResources(6, 1, 112)),
        ("STANDARD_ND40rs_v2", NodeResources(40, 8, 672)),
        ("NV6", NodeResources(6, 1, 56)),
        ("Standard_F4s_v2", NodeResources(4, 0, 8)),
    ],
)
def test_a_size_is_known_in_any_case(size, resources):
    assert node_resources(size) == resources


def test_every_size_has_cores_and_memory():
    assert all(size.cpu >= 1 and size.gpu >= 0 and size.memory_gb >= 2 for size in BUILT_IN.values())


def test_an_unknown_size_names_similar_ones_and_where_to_add_it():
    with pytest.raises(InvalidArgument) as refused:
        node_resources("STANDARD_NC6_V9")
    assert "STANDARD_NC6" in refused.value.problem
    assert "RUNYARD_VM_SIZES" in refused.value.hint


@pytest.mark.parametrize("size", ["", "../x", "a\0b", "x" * 10_000])
def test_an_odd_size_is_refused_briefly(size):
    with pytest.raises(InvalidArgument) as refused:
        node_resources(size)
    assert len(str(refused.value)) < 400


def test_the_operators_table_adds_and_replaces():
    table = edited_table({"standard_nc6": {"cpu": 8, "gpu": 1, "memory_gb": 64}, "Tiny": {"cpu": 0.5}})
    assert node_resources("STANDARD_NC6", table) == NodeResources(8, 1, 64)
    assert node_resources("tiny", table) == NodeResources(0.5, 0, 0)
    assert node_resources("STANDARD_D2_V2", table) == BUILT_IN["STANDARD_D2_V2"]


@pytest.mark.parametrize(
    "body",
    [
        ["STANDARD_X"],
        {"X": 4},
        {"X": {"gpu": 1}},
        {"X": {"cpu": -1}},
        {"X": {"cpu": "4"}},
        {"X": {"cpu": True}},
        {"X": {"cpu": float("nan")}},
        {"X": {"cpu": float("inf")}},
        {"X": {"cpu": 4, "ram": 3}},
    ],
)
def test_a_table_that_cannot_be_right_is_refused_by_its_entry(body):
    with pytest.raises(InvalidArgument, match="RUNYARD_VM_SIZES"):
        edited_table(body)
