import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from threading import Event

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.folder import EnvironmentFolder, environment_key
from runyard.environments.lockfile import LockFile
from runyard.environments.uv_environments import UvEnvironments
from tests.environments.wheelhouse import add_source, add_wheel

pytestmark = pytest.mark.slow

DEMO = EnvironmentSpec(requirements=("demo",))


def _unheard(line: str) -> None:
    pass


def _versions(built: BuiltEnvironment) -> list[str]:
    return list(LockFile.parse(built.lock).versions)


def _output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_built_environment_holds_the_packages_and_what_they_need(environments, wheels):
    add_wheel(wheels, "demo", "1.0", needs="helped>=2")
    add_wheel(wheels, "helped", "2.5")
    built = environments.ensure(DEMO, _unheard)
    assert _versions(built) == ["demo==1.0", "helped==2.5"]
    assert _output(built.python, "-c", "import demo, helped; print(demo.version, helped.version)") == "1.0 2.5"


def test_scripts_of_packages_run_in_the_environment(environments, wheels, root):
    add_wheel(wheels, "demo", "1.0")
    built = environments.ensure(DEMO, _unheard)
    assert _output(built.python.parent / "demo-where") == str(root / built.key)


def test_scripts_run_from_a_folder_whose_path_is_long_and_has_spaces(tmp_path, variables, wheels):
    add_wheel(wheels, "demo", "1.0")
    root = tmp_path / ("a b" * 60) / "environments"
    built = UvEnvironments(root, variables).ensure(DEMO, _unheard)
    assert _output(built.python.parent / "demo-where") == str(root / built.key)


def test_source_packages_are_built(environments, wheels):
    add_source(wheels, "demo", "3.0")
    built = environments.ensure(DEMO, _unheard)
    assert _output(built.python, "-c", "import demo; print(demo.version)") == "3.0"


def test_the_same_wishes_share_one_environment_whatever_was_noted(environments, wheels):
    add_wheel(wheels, "demo", "1.0")
    add_wheel(wheels, "other", "1.0")
    first = environments.ensure(EnvironmentSpec(requirements=("demo", "other")), _unheard)
    again = environments.find(EnvironmentSpec(requirements=("other", "demo"), notes=("a note",)))
    assert again == first


def test_finding_starts_no_process(environments, wheels, monkeypatch):
    add_wheel(wheels, "demo", "1.0")
    built = environments.ensure(DEMO, _unheard)

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert environments.find(DEMO) == built
    assert environments.ensure(DEMO, _unheard) == built


def test_notes_and_the_interpreter_stand_in_the_build_log(environments, wheels):
    add_wheel(wheels, "demo", "1.0")
    said: list[str] = []
    environments.ensure(EnvironmentSpec(requirements=("demo",), notes=("'mkl' is left out.",)), said.append)
    assert said[0] == "'mkl' is left out."
    assert "Python 3." in said[1]
    assert any("demo==1.0" in line for line in said[2:])


def test_an_unknown_package_is_named_in_the_words_of_the_resolver(environments, root):
    with pytest.raises(EnvironmentFailed) as failure:
        environments.ensure(EnvironmentSpec(requirements=("no-such-package==7",)), _unheard)
    assert "no-such-package" in failure.value.problem
    assert "was not found" in failure.value.problem
    assert "'no-such-package==7' in pip_packages" in failure.value.hint
    assert not (root / environment_key(EnvironmentSpec(requirements=("no-such-package==7",)))).exists()


def test_a_build_that_fails_is_named_and_leaves_nothing(environments, wheels, root):
    add_wheel(wheels, "demo", "1.0")
    (wheels / "demo-1.0-py3-none-any.whl").write_bytes(b"not a wheel")
    with pytest.raises(EnvironmentFailed, match="demo"):
        environments.ensure(DEMO, _unheard)
    assert environments.find(DEMO) is None
    assert not (root / environment_key(DEMO)).exists()


def test_the_first_choice_that_can_be_had_is_taken(environments, wheels):
    add_wheel(wheels, "demo", "1.0")
    add_wheel(wheels, "demo", "1.0+cpu")
    said: list[str] = []
    spec = EnvironmentSpec(choices=(("demo==1.0+cpu", "absent==1"), ("demo==1.0+cpu",), ("demo==1.0",)))
    assert _versions(environments.ensure(spec, said.append)) == ["demo==1.0+cpu"]
    assert "demo==1.0+cpu and absent==1 cannot be had from the indexes and wheel folders here." in said
    assert "Taking demo==1.0+cpu without absent==1, which the script cannot import." in said


def test_the_last_choice_fails_in_the_words_of_the_resolver(environments):
    with pytest.raises(EnvironmentFailed, match="absent"):
        environments.ensure(EnvironmentSpec(choices=(("absent==1+cpu",), ("absent==1",))), _unheard)


def test_preferences_hold_unless_the_packages_refuse_them(environments, wheels):
    add_wheel(wheels, "demo", "1.0")
    add_wheel(wheels, "demo", "2.0")
    add_wheel(wheels, "modern", "1.0", needs="demo>=2")
    said: list[str] = []
    assert _versions(environments.ensure(replace(DEMO, preferences=("demo<2",)), said.append)) == ["demo==1.0"]
    assert not any("trying without" in line for line in said)
    spec = EnvironmentSpec(requirements=("modern",), preferences=("demo<2",))
    assert _versions(environments.ensure(spec, said.append)) == ["demo==2.0", "modern==1.0"]
    assert "Your packages do not go together with demo<2; trying without." in said


def test_a_spec_locked_before_keeps_its_versions_when_it_is_built_again(environments, wheels, root):
    add_wheel(wheels, "demo", "1.0")
    first = environments.ensure(DEMO, _unheard)
    EnvironmentFolder(root, first.key).remove()
    add_wheel(wheels, "demo", "2.0")
    assert _versions(environments.ensure(DEMO, _unheard)) == ["demo==1.0"]


def test_a_locked_version_that_has_gone_is_replaced(environments, wheels, root):
    add_wheel(wheels, "demo", "1.0")
    first = environments.ensure(DEMO, _unheard)
    EnvironmentFolder(root, first.key).remove()
    (wheels / "demo-1.0-py3-none-any.whl").unlink()
    add_wheel(wheels, "demo", "2.0")
    said: list[str] = []
    assert _versions(environments.ensure(DEMO, said.append)) == ["demo==2.0"]
    assert any("resolving anew" in line for line in said)


def test_a_spec_that_came_as_json_has_the_same_key():
    spec = EnvironmentSpec(requirements=("demo",), choices=(("a", "b"),))
    assert environment_key(EnvironmentSpec(**json.loads(json.dumps(vars(spec))))) == environment_key(spec)


def test_an_environment_whose_interpreter_was_replaced_is_built_again(environments, wheels, root):
    add_wheel(wheels, "demo", "1.0")
    built = environments.ensure(DEMO, _unheard)
    built.python.unlink()
    assert environments.find(DEMO) is None
    assert _output(environments.ensure(DEMO, _unheard).python, "-c", "import demo; print(demo.version)") == "1.0"


def test_a_user_managed_environment_is_the_interpreter_itself(environments):
    spec = EnvironmentSpec(python=sys.executable, user_managed=True)
    assert environments.ensure(spec, _unheard).python == Path(sys.executable)
    with pytest.raises(EnvironmentFailed, match="no interpreter '/nowhere/python'"):
        environments.ensure(EnvironmentSpec(python="/nowhere/python", user_managed=True), _unheard)


def _ensure_and_count(root: Path, variables: dict[str, str]) -> tuple[str, int]:
    said: list[str] = []
    built = UvEnvironments(root, variables).ensure(DEMO, said.append)
    return built.lock, sum(line.startswith("Installed") for line in said)


def test_eight_builders_at_once_build_once(root, variables, wheels):
    add_wheel(wheels, "demo", "1.0")
    with ProcessPoolExecutor(8, mp_context=get_context("fork")) as pool:
        results = list(pool.map(_ensure_and_count, [root] * 8, [variables] * 8))
    assert {LockFile.parse(lock).versions for lock, _ in results} == {("demo==1.0",)}
    assert sum(installed for _, installed in results) == 1


def test_after_a_killed_builder_the_next_one_starts_afresh(root, variables, wheels, tmp_path):
    gate = str(tmp_path / "gate")
    os.mkfifo(f"{gate}.entered")
    os.mkfifo(f"{gate}.leave")
    add_source(wheels, "demo", "1.0", gate=gate)
    builder = get_context("fork").Process(target=_ensure_and_count, args=(root, variables))
    builder.start()
    assert builder.pid
    Path(f"{gate}.entered").read_bytes()  # returns once the package is being built
    os.kill(builder.pid, signal.SIGKILL)
    builder.join()
    assert UvEnvironments(root, variables).find(DEMO) is None

    waits, said = Event(), []

    def say(line: str) -> None:
        said.append(line)
        waits.set()

    with ThreadPoolExecutor(1) as pool:
        # The build that the dead builder had started goes on; only its end lets the next one in.
        next_build = pool.submit(UvEnvironments(root, variables).ensure, DEMO, say)
        assert waits.wait(timeout=30)
        assert said == ["Another run is building this environment; waiting."]
        os.unlink(f"{gate}.entered")
        Path(f"{gate}.leave").write_bytes(b"")
        built = next_build.result()
    assert _output(built.python, "-c", "import demo; print(demo.version)") == "1.0"


def test_half_an_environment_is_neither_found_nor_kept(environments, wheels, root):
    add_wheel(wheels, "demo", "1.0")
    left = root / environment_key(DEMO) / "bin"
    left.mkdir(parents=True)
    (left / "junk").write_text("from a killed builder")
    assert environments.find(DEMO) is None
    built = environments.ensure(DEMO, _unheard)
    assert not (built.python.parent / "junk").exists()


def test_packages_that_need_another_python_are_tried_with_the_one_that_stands_in(environments, wheels):
    add_wheel(wheels, "demo", "1.0", needs_python=">=3.99")
    heard: list[str] = []
    with pytest.raises(EnvironmentFailed, match=r"'demo' needs Python >=3\.99"):
        environments.ensure(replace(DEMO, python="3.10.18", python_instead="3.99"), heard.append)
    assert "'demo' needs Python >=3.99, and 3.10.18 is the SDK's default: the submitter's 3.99 is taken." in heard
    assert any(line.startswith("Python 3.99 is not on this machine") for line in heard)
    assert sum("No solution found" in line for line in heard) == 1


def test_no_other_python_is_tried_for_packages_that_are_nowhere(environments, wheels):
    heard: list[str] = []
    with pytest.raises(EnvironmentFailed):
        environments.ensure(replace(DEMO, python="3.10.18", python_instead="3.99"), heard.append)
    assert not any("3.99" in line for line in heard)
    assert sum("No solution found" in line for line in heard) == 1


def test_the_python_that_stands_in_makes_no_other_environment():
    assert environment_key(replace(DEMO, python_instead="3.12")) == environment_key(DEMO)
