import os
import sys
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.interpreters import Interpreter, choose_interpreter, discover_interpreters, how_to_install


def _python(*version: int, headers: bool = True) -> Interpreter:
    return Interpreter(f"/python{version}", (version[0], version[1], version[2]), headers)


PY36, PY38, PY38_LATER, PY311 = _python(3, 6, 15), _python(3, 8, 10), _python(3, 8, 18), _python(3, 11, 7)
FOUND = [PY311, PY36, PY38, PY38_LATER]


@pytest.mark.parametrize(
    ("wish", "chosen", "note"),
    [
        ("3.6.2", PY36, "Python 3.6.15 stands in for 3.6.2."),
        ("3.6", PY36, ""),
        ("3.8.10", PY38, ""),
        ("3.8", PY38_LATER, ""),
        ("3.7", PY38_LATER, "Python 3.7 is not on this machine; 3.8.18, the nearest newer one, is taken."),
        ("3.14", PY311, "Python 3.14 is not on this machine; 3.11.7, the newest one, is taken."),
        ("3", PY311, ""),
    ],
)
def test_a_wished_version_is_met_as_nearly_as_the_machine_can(wish, chosen, note):
    assert choose_interpreter(EnvironmentSpec(python=wish), FOUND) == (chosen, note)


def test_a_framework_takes_the_best_of_its_minors_that_is_here():
    assert choose_interpreter(EnvironmentSpec(python="3.7,3.6", exact_python=True), FOUND)[0] == PY36
    assert choose_interpreter(EnvironmentSpec(python="3.11,3.6", exact_python=True), FOUND)[0] == PY311


def test_a_framework_without_its_python_says_which_and_how_to_get_one():
    spec = EnvironmentSpec(python="3.6,3.7", exact_python=True, requirements=("tensorflow==1.13.2",))
    with pytest.raises(EnvironmentFailed) as failure:
        choose_interpreter(spec, [PY311, PY38])
    assert failure.value.problem == "tensorflow==1.13.2 needs Python 3.6 or 3.7, and this machine has 3.8, 3.11."
    assert "pyenv install 3.6" in failure.value.hint


def test_one_that_can_compile_is_preferred():
    bare = _python(3, 8, 19, headers=False)
    assert choose_interpreter(EnvironmentSpec(python="3.8"), [bare, PY38_LATER])[0] == PY38_LATER


def test_this_interpreter_is_among_those_found(tmp_path: Path):
    found = discover_interpreters(tmp_path / "known.json", {"PATH": "", "HOME": str(tmp_path)})
    assert tuple(sys.version_info[:3]) in {interpreter.version for interpreter in found}


def _counting_python(folder: Path, counts: Path) -> Path:
    folder.mkdir(parents=True)
    python = folder / "python3.9"
    python.write_text(f'#!/bin/sh\necho started >> {counts}\nexec {os.path.realpath(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return python


def test_an_interpreter_is_started_once_and_again_only_when_it_changed(tmp_path: Path):
    counts = tmp_path / "counts"
    python = _counting_python(tmp_path / "bin", counts)
    variables = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    for _ in range(2):
        assert str(python) in {
            interpreter.path for interpreter in discover_interpreters(tmp_path / "known.json", variables)
        }
    assert counts.read_text().count("started") == 1
    os.utime(python, (1, 1))
    discover_interpreters(tmp_path / "known.json", variables)
    assert counts.read_text().count("started") == 2


def test_versions_kept_in_the_home_folder_are_found_without_path(tmp_path: Path):
    python = _counting_python(tmp_path / ".pyenv/versions/3.9.9/bin", tmp_path / "counts")
    found = discover_interpreters(tmp_path / "known.json", {"PATH": "", "HOME": str(tmp_path)})
    assert str(python) in {interpreter.path for interpreter in found}


@pytest.mark.parametrize(
    ("variable", "value", "place"),
    [
        ("PYENV_ROOT", "", "versions/3.9.1/bin"),
        ("CONDA_EXE", "condabin/conda", "envs/mine/bin"),
        ("MAMBA_ROOT_PREFIX", "", "envs/mine/bin"),
        ("XDG_DATA_HOME", "", "uv/python/cpython-3.9/bin"),
    ],
)
def test_versions_are_found_where_the_users_shell_has_them(tmp_path: Path, variable, value, place):
    python = _counting_python(tmp_path / "tools" / place, tmp_path / "counts")
    plain = {"PATH": "", "HOME": str(tmp_path / "home")}
    assert str(python) not in {one.path for one in discover_interpreters(tmp_path / "known.json", plain)}
    chosen = {**plain, variable: str(tmp_path / "tools" / value)}
    assert str(python) in {one.path for one in discover_interpreters(tmp_path / "known.json", chosen)}


def test_shims_and_broken_interpreters_are_passed_over(tmp_path: Path):
    shim = _counting_python(tmp_path / "shims", tmp_path / "counts")
    broken = _counting_python(tmp_path / "bin", tmp_path / "counts")
    broken.write_text("#!/bin/sh\nexit 1\n")
    path = os.pathsep.join([str(shim.parent), str(broken.parent)])
    found = discover_interpreters(tmp_path / "known.json", {"PATH": path, "HOME": str(tmp_path)})
    assert not {str(shim), str(broken)} & {interpreter.path for interpreter in found}


def test_a_damaged_record_of_interpreters_is_made_anew(tmp_path: Path):
    (tmp_path / "known.json").write_text("{half")
    assert discover_interpreters(tmp_path / "known.json", {"PATH": "", "HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("minors", "by_uv"), [(["3.7"], ""), (["3.6", "3.7"], ""), (["3.7", "3.8"], "3.8"), (["3.12"], "3.12")]
)
def test_uv_is_named_only_for_versions_that_it_has(minors, by_uv):
    told = how_to_install(minors)
    assert f"`pyenv install {minors[0]}`" in told
    assert (f"`uv python install {by_uv}`" in told) if by_uv else ("uv" not in told)
