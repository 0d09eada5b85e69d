import os
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.uv_environments import UvEnvironments


def _unheard(line: str) -> None:
    pass


def _library_of(folder: Path) -> Path:
    """Beside a program folder, as MPI installed by hand is."""
    library = folder / "lib" / "libnew.so.40"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    return library


def test_programs_of_the_environment_find_a_library_under_its_old_name(root, variables, tmp_path):
    library = _library_of(tmp_path / "mpi")
    path = f"{tmp_path / 'mpi' / 'bin'}{os.pathsep}{variables['PATH']}"
    environments = UvEnvironments(root, {**variables, "PATH": path})
    built = environments.ensure(EnvironmentSpec(library_links=(("libold.so.12", "libnew.so.40"),)), _unheard)
    folder = Path(built.path_variables["LD_LIBRARY_PATH"])
    assert (folder / "libold.so.12").resolve() == library
    assert environments.find(EnvironmentSpec(library_links=(("libold.so.12", "libnew.so.40"),))) == built


def test_libraries_that_the_loader_knows_are_found(environments):
    spec = EnvironmentSpec(library_links=(("libold.so.6", "libc.so.6"),))
    folder = environments.ensure(spec, _unheard).path_variables["LD_LIBRARY_PATH"]
    assert Path(folder, "libold.so.6").resolve().name.startswith("libc")


def test_a_library_that_is_missing_is_named_and_leaves_no_environment(environments, root):
    spec = EnvironmentSpec(library_links=(("libmpi.so.12", "libnowhere.so.40"),))
    with pytest.raises(EnvironmentFailed, match=r"libnowhere\.so\.40 is not on this machine") as failure:
        environments.ensure(spec, _unheard)
    assert "Open MPI" in failure.value.hint
    assert environments.find(spec) is None
    assert not any(EnvironmentFolder(root, entry.name).python.exists() for entry in root.iterdir())
