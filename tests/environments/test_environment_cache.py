import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runyard.core.durable_files import exclusive_lock
from runyard.core.errors import EnvironmentFailed
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.cache import list_built, prune, size_limit, trim
from runyard.environments.folder import EnvironmentFolder
from tests.environments.wheelhouse import add_wheel

NOW = datetime.now(UTC)


def _unheard(line: str) -> None:
    pass


@pytest.fixture
def old_and_new(environments, wheels, root) -> tuple[BuiltEnvironment, BuiltEnvironment]:
    """Two environments, last used ten days and one day ago."""
    add_wheel(wheels, "demo", "1.0")
    add_wheel(wheels, "other", "2.0")
    built = [environments.ensure(EnvironmentSpec(requirements=(name,)), _unheard) for name in ("demo", "other")]
    for environment, days in zip(built, (10, 1), strict=True):
        used = (NOW - timedelta(days=days)).timestamp()
        os.utime(root / environment.key / ".ready", (used, used))
    return built[0], built[1]


def test_environments_are_listed_least_recently_used_first(old_and_new, root):
    old, new = list_built(root)
    assert (old.key, new.key) == (old_and_new[0].key, old_and_new[1].key)
    assert old.packages == ("demo==1.0",)
    assert old.bytes > 0
    assert not old.in_use


def test_finding_an_environment_makes_it_the_most_recent(environments, old_and_new, root):
    environments.find(EnvironmentSpec(requirements=("demo",)))
    assert [environment.key for environment in list_built(root)] == [old_and_new[1].key, old_and_new[0].key]


def test_those_unused_for_long_are_pruned(old_and_new, root):
    assert prune(root, older_than=timedelta(days=5), now=NOW) == [old_and_new[0].key]
    assert [environment.key for environment in list_built(root)] == [old_and_new[1].key]


def test_the_most_recent_are_kept(old_and_new, root):
    assert prune(root, keep=1, now=NOW) == [old_and_new[0].key]


def test_one_that_a_run_holds_is_never_pruned(environments, old_and_new, root):
    old, new = old_and_new
    with environments.hold(old):
        assert list_built(root)[0].in_use
        assert prune(root, now=NOW) == [new.key]
    assert prune(root, now=NOW) == [old.key]


def test_one_that_is_being_built_is_not_pruned(old_and_new, root):
    old, new = old_and_new
    with exclusive_lock(EnvironmentFolder(root, old.key).builder_lock):
        assert prune(root, now=NOW) == [new.key]


def test_what_a_killed_builder_left_is_pruned(root):
    (root / "abandoned" / "bin").mkdir(parents=True)
    assert prune(root, older_than=timedelta(days=5), now=NOW) == ["abandoned"]
    assert not (root / "abandoned").exists()


def test_a_pruned_environment_cannot_be_held(environments, old_and_new, root):
    prune(root, now=NOW)
    with pytest.raises(EnvironmentFailed, match="removed meanwhile"), environments.hold(old_and_new[0]):
        pass


def test_a_home_without_environments_lists_none(tmp_path: Path):
    assert list_built(tmp_path / "nothing") == []
    assert prune(tmp_path / "nothing") == []


def test_a_cache_within_its_bounds_is_left_alone(old_and_new, root):
    assert trim(root, 10**12) == []
    assert len(list_built(root)) == 2


def test_beyond_its_bounds_the_least_recently_used_goes_first(old_and_new, root):
    old, new = list_built(root)
    assert trim(root, old.bytes + new.bytes - 1) == [old.key]
    assert trim(root, 0) == [new.key]


def test_trimming_spares_what_is_held_built_new_or_about_to_be_held(environments, old_and_new, root):
    old, new = old_and_new
    with environments.hold(old), exclusive_lock(EnvironmentFolder(root, new.key).builder_lock):
        assert trim(root, 0) == []
    assert trim(root, 0, spared={old.key}) == [new.key]
    environments.find(EnvironmentSpec(requirements=("demo",)))
    assert trim(root, 0) == []
    assert trim(root, 0, now=NOW + timedelta(hours=1)) == [old.key]


def test_trimming_removes_what_killed_builders_left(old_and_new, root):
    (root / "abandoned" / "bin").mkdir(parents=True)
    left = EnvironmentFolder(root, "abandoned").fresh_scratch()
    (left / "certificates.pem").write_text("of a workspace")
    busy = EnvironmentFolder(root, "busy").fresh_scratch()
    with exclusive_lock(EnvironmentFolder(root, "busy").builder_lock):
        assert trim(root, 10**12) == []
    assert not (root / "abandoned").exists()
    assert not left.exists()
    assert busy.exists()


def test_the_bound_is_what_the_operator_set_else_part_of_the_disk(tmp_path):
    assert size_limit(tmp_path, {"RUNYARD_ENVIRONMENTS_BYTES": "5000"}) == 5000
    for unset in ({}, {"RUNYARD_ENVIRONMENTS_BYTES": "plenty"}):
        assert 0 < size_limit(tmp_path, unset) <= 100 * 10**9


def test_sizes_are_counted_once(old_and_new, root):
    trim(root, 10**12)
    assert int((root / old_and_new[0].key / ".size").read_text()) > 0
    (root / old_and_new[0].key / ".size").write_text(str(10**13))
    assert trim(root, 10**12) == [old_and_new[0].key]
