from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause, PackageSettings
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.interpreters import uv_managed
from runyard.environments.package_sources import PackageSources
from runyard.environments.python_downloads import obtain_interpreter
from tests.environments.conda_tool.served import served
from tests.environments.python_mirror import MINOR, VERSION, add_mirror

NEEDED = EnvironmentSpec(python=MINOR, exact_python=True, requirements=("framework==1.0",))
WISHED = EnvironmentSpec(python=f"{MINOR}.0")


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {"PATH": "", "HOME": str(tmp_path / "home"), "UV_CACHE_DIR": str(tmp_path / "uv-cache")}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "environments/interpreters.json"


def test_a_python_that_is_not_here_is_downloaded_once_and_found_from_then_on(tmp_path, variables, cache):
    sources = PackageSources({**variables, **add_mirror(tmp_path / "mirror")})
    log: list[str] = []
    interpreter, note = obtain_interpreter(WISHED, cache, sources, log.append)
    assert (str(interpreter), note) == (VERSION, f"Python {VERSION} stands in for {WISHED.python}.")
    assert interpreter.path.startswith(str(uv_managed(variables)))
    assert f"Python {MINOR} is not on this machine; uv downloads it." in log
    again: list[str] = []
    assert obtain_interpreter(NEEDED, cache, PackageSources(variables), again.append)[0] == interpreter
    assert again == []


def test_it_comes_from_a_mirror_on_the_network_too(tmp_path, variables, cache):
    with served(tmp_path / "mirror") as address:
        variables |= add_mirror(tmp_path / "mirror", f"http://{address}")
        assert obtain_interpreter(NEEDED, cache, PackageSources(variables), print)[0].minor == MINOR


def test_nothing_is_left_on_the_users_path(tmp_path, variables, cache):
    obtain_interpreter(NEEDED, cache, PackageSources({**variables, **add_mirror(tmp_path / "mirror")}), print)
    assert not (tmp_path / "home/.local/bin").exists()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (PackageSettings(python_downloads="never"), "the workspace's setting python_downloads is 'never'."),
        (PackageSettings(offline=True), "the workspace is offline."),
    ],
)
def test_nothing_is_downloaded_where_the_workspace_forbids_it(tmp_path, variables, cache, settings, why):
    sources = PackageSources({**variables, **add_mirror(tmp_path / "mirror")}, settings)
    log: list[str] = []
    with pytest.raises(EnvironmentFailed) as failure:
        obtain_interpreter(NEEDED, cache, sources, log.append)
    assert (failure.value.facts["cause"], failure.value.facts["said"]) == (FailureCause.NO_PYTHON, why)
    assert log == [f"Python {MINOR} is not downloaded: {why}"]
    assert not uv_managed(variables).exists()


def test_uvs_own_switch_is_heeded(tmp_path, variables, cache):
    sources = PackageSources({**variables, **add_mirror(tmp_path / "mirror"), "UV_PYTHON_DOWNLOADS": "never"})
    with pytest.raises(EnvironmentFailed, match=f"needs Python {MINOR}"):
        obtain_interpreter(NEEDED, cache, sources, print)


def test_without_the_network_a_wish_is_met_by_the_nearest_that_is_here(tmp_path, variables, cache):
    with served(tmp_path) as address:
        pass
    sources = PackageSources({**variables, **add_mirror(tmp_path / "mirror", f"http://{address}")})
    log: list[str] = []
    interpreter, note = obtain_interpreter(WISHED, cache, sources, log.append)
    assert interpreter.minor != MINOR
    assert note.startswith(f"Python {WISHED.python} is not on this machine; {interpreter}, the newest one, is taken.")
    assert any("is not downloaded" in line for line in log)


def test_without_the_network_a_framework_names_the_python_it_needs_and_uvs_words(tmp_path, variables, cache):
    with served(tmp_path) as address:
        pass
    sources = PackageSources({**variables, **add_mirror(tmp_path / "mirror", f"http://{address}")})
    with pytest.raises(EnvironmentFailed) as failure:
        obtain_interpreter(NEEDED, cache, sources, print)
    assert failure.value.facts["cause"] == FailureCause.NO_PYTHON
    assert "refused" in failure.value.facts["said"]
    assert "framework==1.0 needs Python 3.47" in failure.value.problem


def test_what_arrives_damaged_is_not_installed(tmp_path, variables, cache):
    variables |= add_mirror(tmp_path / "mirror")
    archive = next((tmp_path / "mirror").glob("*.tar.gz"))
    archive.write_bytes(archive.read_bytes()[:-20])
    with pytest.raises(EnvironmentFailed):
        obtain_interpreter(NEEDED, cache, PackageSources(variables), print)
    assert not list(uv_managed(variables).glob("*/bin"))


def test_a_python_of_the_machine_is_never_downloaded(variables, cache, tmp_path):
    log: list[str] = []
    obtain_interpreter(
        EnvironmentSpec(), cache, PackageSources({**variables, **add_mirror(tmp_path / "mirror")}), log.append
    )
    assert log == []
