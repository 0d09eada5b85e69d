"""The README of each source folder, and docs/architecture.md, name only files and folders that exist."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
RUNYARD = REPOSITORY / "packages" / "runyard" / "src" / "runyard"
SDK = REPOSITORY / "packages" / "sdk" / "src"
FOLDERS = sorted(folder for folder in [*RUNYARD.iterdir(), *SDK.iterdir()] if (folder / "__init__.py").is_file())
A_PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|md|toml|json)")
IN_A_HOME = re.compile(
    r"(?:\./|ends/|process-logs/|azureml-logs/|environments/$|sdk/$|scripts/$|mounts/$)|(?:home|service|result)\.json$"
)


def missing(page: Path, *roots: Path) -> list[str]:
    named = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S))
    paths = [path for path in named if A_PATH.fullmatch(path) and not IN_A_HOME.match(path)]
    return [path for path in paths if not any((root / path).exists() for root in (*roots, RUNYARD, SDK, REPOSITORY))]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_source_folder_has_a_readme_whose_paths_exist(folder: Path) -> None:
    assert missing(folder / "README.md", folder, RUNYARD.parent) == []


def test_the_page_on_the_architecture_names_paths_that_exist() -> None:
    assert missing(REPOSITORY / "docs" / "architecture.md", REPOSITORY / "docs") == []


def test_the_page_on_the_architecture_lists_every_folder() -> None:
    page = (REPOSITORY / "docs" / "architecture.md").read_text("utf-8")
    assert [folder.name for folder in FOLDERS if folder.parent == RUNYARD and f"| `{folder.name}/` |" not in page] == []
