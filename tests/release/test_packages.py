"""What packages say of themselves, without building them; `make dist` builds, installs and tries them."""

import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from release.contents import PACKAGES, REPOSITORY, RUNYARD, SDK, Package, faults_of

from runyard.core.version import VERSION
from runyard_sdk import __version__


def test_the_version_has_one_source() -> None:
    project = tomllib.loads((RUNYARD.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (sdk,) = (one for one in map(Requirement, project["dependencies"]) if one.name == "runyard-sdk")
    assert {VERSION, project["version"]} == {__version__}
    assert str(sdk.specifier) == f"=={__version__}"
    assert "version = attr: runyard_sdk.__version__\n" in (SDK.folder / "setup.cfg").read_text(encoding="utf-8")


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_the_licence_of_a_package_is_that_of_the_repository(package: Package) -> None:
    assert (package.folder / "LICENSE").read_bytes() == (REPOSITORY / "LICENSE").read_bytes()


def test_data_files_of_the_service_are_expected_in_its_wheel() -> None:
    wanted = {Path(name).suffix for name in RUNYARD.sources()}
    assert {".py", ".json", ".css", ".mako", ".typed"} <= wanted
    assert any(name.startswith("runyard/storage/sql/migrations/versions/") for name in RUNYARD.sources())


def test_a_wheel_that_lacks_a_file_or_has_tests_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(SDK.wheel(tmp_path), "w") as made:
        for name in SDK.sources() - {"azureml/core/run.py"}:
            made.writestr(name, "")
        made.writestr("tests/test_paths.py", "")
        made.writestr(f"{SDK.info}/METADATA", "Metadata-Version: 2.4\nVersion: 0.0\n\n")
    name = SDK.wheel(tmp_path).name
    assert list(faults_of(SDK, tmp_path)) == [
        f"{SDK.sdist(tmp_path).name} was not built.",
        f"{name} lacks azureml/core/run.py.",
        f"{name} should not have tests/test_paths.py.",
        f"{name} has no licence.",
        f"{name} says that it is version 0.0, not {VERSION}.",
        f"{name} has no description.",
    ]
