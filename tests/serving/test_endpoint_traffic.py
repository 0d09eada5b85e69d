import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.errors import AlreadyExists, Conflict, InvalidArgument, NotFound
from runyard.serving.deployments.versions import (
    MOST_VERSIONS,
    EndpointVersion,
    VersionChange,
    check_version_name,
    shares,
    split_config,
    version_config,
    with_change,
    with_version,
    without_version,
)


def made(**percentiles: int) -> tuple[EndpointVersion, ...]:
    versions: tuple[EndpointVersion, ...] = ()
    for name, percentile in percentiles.items():
        versions = with_version(versions, name, f"id-{name}", VersionChange(percentile))
    return versions


def shared(versions: tuple[EndpointVersion, ...]) -> dict[str, int]:
    return {one.name: one.share for one in shares(versions)}


def test_what_no_version_asks_for_goes_to_the_default_one() -> None:
    assert shared(made(a=40, b=10)) == {"a": 90, "b": 10}
    assert shared(with_change(made(a=40, b=10), "b", VersionChange(is_default=True))) == {"a": 40, "b": 60}
    assert shared(made(a=0)) == {"a": 100}


def test_percentiles_come_to_at_most_a_hundred() -> None:
    assert shared(made(a=40, b=60)) == {"a": 40, "b": 60}
    with pytest.raises(InvalidArgument, match=r"would be 101 \(a: 40 \+ b: 61\)"):
        made(a=40, b=61)


def test_one_version_is_the_default_and_one_the_control() -> None:
    versions = with_change(made(a=0, b=0, c=0), "b", VersionChange(is_default=True, is_control=True))
    assert [(one.is_default, one.is_control) for one in versions] == [(False, False), (True, True), (False, False)]
    for wish in (VersionChange(is_default=False), VersionChange(is_control=False)):
        with pytest.raises(InvalidArgument, match="there must be one"):
            with_change(versions, "b", wish)
    assert with_change(versions, "a", VersionChange(is_default=False, is_control=False)) == versions


def test_the_default_version_stays_and_follows_the_control_that_goes() -> None:
    versions = with_change(made(a=10, b=20), "b", VersionChange(is_control=True))
    with pytest.raises(Conflict, match="'a' is the default version"):
        without_version(versions, "a")
    (left,) = without_version(versions, "b")
    assert (left.name, left.is_default, left.is_control, shared((left,))) == ("a", True, True, {"a": 100})


def test_names_are_single_and_bounded_in_number() -> None:
    with pytest.raises(AlreadyExists, match="'a'"):
        with_version(made(a=1), "a", "id", VersionChange())
    with pytest.raises(NotFound, match="It has 'a'"):
        with_change(made(a=1), "../b", VersionChange())
    with pytest.raises(Conflict, match="at most"):
        made(**{f"v{number}": 0 for number in range(MOST_VERSIONS + 1)})


@pytest.mark.parametrize("name", ["", "A", "1a", "a-", "-a", "a_b", "a/b", "../a", "a\0", "a\r\nX: y", "é", "a" * 33])
def test_a_name_that_no_version_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="version_name"):
        check_version_name(name)


def test_a_configuration_is_parted_between_endpoint_and_version() -> None:
    config = {"version_name": "a", "traffic_percentile": 1, "auth_enabled": True, "cpu_cores": 2.0}
    assert split_config(config) == ({"auth_enabled": True}, {"cpu_cores": 2.0})
    with pytest.raises(InvalidArgument, match="auth_enabled is not a version's"):
        version_config({"auth_enabled": False})


_WISHES = st.builds(
    VersionChange,
    st.none() | st.integers(0, 100),
    st.none() | st.booleans(),
    st.none() | st.booleans(),
)


@given(st.lists(st.tuples(st.sampled_from("acd"), st.sampled_from(["v1", "v2", "v3", "v4"]), _WISHES), max_size=30))
def test_whatever_is_asked_for_the_shares_are_whole(steps: list[tuple[str, str, VersionChange]]) -> None:
    versions = made(v0=0)
    for action, name, wish in steps:
        try:
            if action == "a":
                versions = with_version(versions, name, f"id-{name}", wish)
            elif action == "c":
                versions = with_change(versions, name, wish)
            else:
                versions = without_version(versions, name)
        except (AlreadyExists, Conflict, InvalidArgument, NotFound):
            continue
        assert sum(one.share for one in shares(versions)) == 100
        assert all(one.share >= 0 for one in shares(versions))
        assert [sum(one.is_default for one in versions), sum(one.is_control for one in versions)] == [1, 1]
