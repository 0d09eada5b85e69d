import os
import shutil
import signal
import subprocess
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.cache import list_built
from runyard.environments.compiled_wheels import CompiledWheels
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.lockfile import LockFile
from runyard.environments.planning.source_builds import build_dependencies
from runyard.environments.uv_environments import PrebuiltEnvironment, UvEnvironments
from runyard.testing.small_disk import mounted
from tests.environments.compilable import add_horovod, add_open_mpi
from tests.environments.wheelhouse import add_wheel

pytestmark = pytest.mark.slow

SPEC = EnvironmentSpec(requirements=("tensorflow==1.13.2", *build_dependencies(["horovod"])), builds=("horovod",))
BUILDING = "Building horovod==0.16.1 against tensorflow==1.13.2"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    return tmp_path / "tools"


@pytest.fixture
def variables(variables, wheels, tools) -> dict[str, str]:
    """A submitter with an Open MPI, whose index has Horovod and TensorFlow."""
    add_wheel(wheels, "tensorflow", "1.13.2")
    add_horovod(wheels)
    add_open_mpi(tools)
    return {**variables, "PATH": f"{tools}{os.pathsep}{variables['PATH']}"}


def _unheard(line: str) -> None:
    pass


def _against(python: Path) -> str:
    asked = [str(python), "-c", "import horovod; print(horovod.against())"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _makes(environments: UvEnvironments, spec: EnvironmentSpec) -> tuple[str, bool]:
    """What Horovod was compiled against, and whether that happened just now."""
    said: list[str] = []
    built = environments.ensure(spec, said.append)
    return _against(built.python), any(line.startswith("Building horovod") for line in said)


@pytest.mark.needs("compiler")
def test_horovod_is_compiled_against_the_framework_once_and_then_taken_from_the_cache(
    environments, root, tools, wheels
):
    said: list[str] = []
    first = environments.ensure(SPEC, said.append)
    assert any(line.startswith(BUILDING) for line in said)
    assert any(line.startswith("Built horovod==0.16.1 against tensorflow==1.13.2 in ") for line in said)
    assert _against(first.python) == "1.13.2"
    assert "horovod==0.16.1" in LockFile.parse(first.lock).versions
    EnvironmentFolder(root, first.key).remove()
    assert _makes(environments, SPEC) == ("1.13.2", False)
    add_wheel(wheels, "extra", "1.0")
    add_open_mpi(tools, "4.1.9")  # a patch of the one before
    with_extra = replace(SPEC, requirements=(*SPEC.requirements, "extra"))
    assert _makes(environments, with_extra) == ("1.13.2", False)


@pytest.mark.needs("compiler")
def test_another_framework_index_or_open_mpi_has_its_own_wheel(environments, tools, wheels):
    add_wheel(wheels, "tensorflow", "1.13.1")
    add_wheel(wheels, "extra", "1.0")
    assert _makes(environments, SPEC) == ("1.13.2", True)
    older = replace(SPEC, requirements=("tensorflow==1.13.1", *SPEC.requirements[1:]))
    assert _makes(environments, older) == ("1.13.1", True)
    assert _makes(environments, replace(SPEC, sources="of another workspace")) == ("1.13.2", True)
    named = f"--find-links {wheels}"
    assert _makes(environments, replace(SPEC, requirements=(*SPEC.requirements, named))) == ("1.13.2", True)
    add_open_mpi(tools, "5.0.1")
    assert _makes(environments, replace(SPEC, requirements=(*SPEC.requirements, "extra"))) == ("1.13.2", True)


@pytest.mark.needs("compiler")
def test_the_release_that_the_user_names_is_built(environments, wheels):
    add_horovod(wheels, "0.19.5")
    for asked in ("horovod==0.19.5", "horovod>=0.17"):
        built = environments.ensure(replace(SPEC, builds=(asked,)), _unheard)
        assert "horovod==0.19.5" in LockFile.parse(built.lock).versions
        assert _against(built.python) == "1.13.2"


def test_a_framework_without_a_suitable_release_is_noted_and_goes_without(environments, wheels):
    add_wheel(wheels, "tensorflow", "1.4.0")
    said: list[str] = []
    spec = replace(SPEC, requirements=("tensorflow==1.4.0", *SPEC.requirements[1:]))
    assert "horovod" not in environments.ensure(spec, said.append).lock
    assert any("no release of it is known to work with tensorflow 1.4.0" in line for line in said)


@pytest.mark.parametrize(
    ("programs", "missing", "advice"),
    [
        ((), "no mpirun on PATH", "openmpi-bin"),
        (("mpirun",), "no g++ on PATH", "build-essential"),
        (("mpirun", "g++"), "no mpicxx on PATH", "libopenmpi-dev"),
    ],
)
def test_a_missing_tool_is_named_with_what_to_install(root, variables, tools, programs, missing, advice):
    shutil.rmtree(tools)
    add_open_mpi(tools, programs=programs)
    environments = UvEnvironments(root, {**variables, "PATH": str(tools)})
    with pytest.raises(EnvironmentFailed) as failure:
        environments.ensure(SPEC, _unheard)
    assert missing in failure.value.problem
    assert "horovod==0.16.1" in failure.value.problem
    assert advice in failure.value.hint
    assert environments.find(SPEC) is None


def test_an_mpi_of_another_make_is_refused(root, variables, tools):
    (tools / "mpirun").write_text("#!/bin/sh\necho 'HYDRA build details:'\n")
    with pytest.raises(EnvironmentFailed, match="is another one: 'HYDRA build details:'"):
        UvEnvironments(root, variables).ensure(SPEC, _unheard)


@pytest.mark.needs("compiler")
def test_what_the_compiler_said_is_quoted_and_nothing_is_kept(root, variables, tools):
    add_open_mpi(tools)
    (tools / "g++").write_text("#!/bin/sh\necho 'horovod.cc:3: error: no such thing' >&2\nexit 1\n")
    (tools / "g++").chmod(0o755)
    environments = UvEnvironments(root, variables)
    with pytest.raises(EnvironmentFailed, match="error: no such thing") as failure:
        environments.ensure(SPEC, _unheard)
    assert "compiling horovod==0.16.1 against tensorflow==1.13.2 failed" in failure.value.problem
    assert environments.find(SPEC) is None
    assert list((root / "wheels").iterdir()) == []


def _build_and_count(root: Path, variables: dict[str, str], extra: str) -> tuple[str, int]:
    said: list[str] = []
    spec = replace(SPEC, requirements=(*SPEC.requirements, extra))
    built = UvEnvironments(root, variables).ensure(spec, said.append)
    return _against(built.python), sum(line.startswith(BUILDING) for line in said)


@pytest.mark.needs("compiler")
def test_builders_of_different_environments_compile_once(root, variables, wheels):
    extras = ["one", "two", "three"]
    for name in extras:
        add_wheel(wheels, name, "1.0")
    with ProcessPoolExecutor(3, mp_context=get_context("fork")) as pool:
        made = list(pool.map(_build_and_count, [root] * 3, [variables] * 3, extras))
    assert [against for against, _ in made] == ["1.13.2"] * 3
    assert sum(count for _, count in made) == 1


@pytest.mark.needs("compiler")
def test_what_a_killed_builder_left_is_neither_used_nor_kept(root, variables, wheels, tmp_path):
    gate = str(tmp_path / "gate")
    os.mkfifo(f"{gate}.entered")
    os.mkfifo(f"{gate}.leave")
    add_horovod(wheels, gate=gate)
    add_wheel(wheels, "extra", "1.0")
    builder = get_context("fork").Process(target=_build_and_count, args=(root, variables, "extra"))
    builder.start()
    assert builder.pid
    Path(f"{gate}.entered").read_bytes()  # returns once it is being compiled
    os.kill(builder.pid, signal.SIGKILL)
    builder.join()
    os.unlink(f"{gate}.entered")
    Path(f"{gate}.leave").write_bytes(b"")  # pip goes on to its end, and lets the lock go then
    assert _build_and_count(root, variables, "extra") == ("1.13.2", 1)
    assert [folder.name for folder in (root / "wheels").iterdir() if folder.name.startswith(".")] == []


@pytest.mark.needs("compiler")
def test_a_disk_that_fills_up_while_compiling_is_said_and_nothing_is_kept(tmp_path, variables, wheels):
    add_horovod(wheels, ballast=64 << 20)
    with mounted(tmp_path / "small", 48) as small_disk:
        root = small_disk / "environments"
        environments = UvEnvironments(root, variables)
        with pytest.raises(EnvironmentFailed, match="The disk filled up while compiling horovod") as failure:
            environments.ensure(SPEC, _unheard)
        assert "Free space" in failure.value.hint
        assert environments.find(SPEC) is None
        assert list((root / "wheels").iterdir()) == []


@pytest.mark.needs("compiler")
def test_pruning_removes_wheels_that_were_not_used_lately_and_leftovers(environments, root, variables):
    built = environments.ensure(SPEC, _unheard)
    wheels = CompiledWheels(root, variables)
    left = root / "wheels" / f".build-{'0' * 24}-x"
    left.mkdir()
    assert wheels.prune(timedelta(days=1)) == []
    assert not left.exists()
    assert _against(built.python) == "1.13.2"
    (kept,) = (root / "wheels").iterdir()
    assert wheels.prune(timedelta(0)) == [kept.name]
    assert _against(built.python) == "1.13.2"
    assert [environment.key for environment in list_built(root)] == [built.key]


@pytest.mark.needs("compiler")
def test_the_same_environment_is_made_on_a_machine_without_compilers(environments, tmp_path, variables, tools):
    made = environments.lock_of(environments.ensure(SPEC, _unheard))
    assert made is not None
    shutil.rmtree(tools)
    add_open_mpi(tools, programs=("mpirun",))

    def bring(key: str, into: Path) -> Path | None:
        return Path(shutil.copy(made.wheels[key], into)) if key in made.wheels else None

    elsewhere = UvEnvironments(tmp_path / "elsewhere", {**variables, "PATH": str(tools)})
    built = elsewhere.ensure(SPEC, _unheard, PrebuiltEnvironment(made.python, made.lock, bring))
    assert _against(built.python) == "1.13.2"


def test_a_machine_without_the_python_of_the_lock_says_which_is_missing(environments):
    elsewhere = PrebuiltEnvironment("3.99", "tensorflow==1.13.2\n", lambda key, into: None)
    with pytest.raises(EnvironmentFailed, match=r"needs Python 3\.99, and this machine has 3\."):
        environments.ensure(SPEC, _unheard, elsewhere)
