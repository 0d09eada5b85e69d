"""What the repository promises about itself: small files, documented commands and settings, nothing of one machine."""

import re
import shutil
import subprocess
import tomllib
import warnings
from collections import Counter
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
import typer
from bench.code_measures import PACKAGES, SMALL_LINES, Tree
from packaging.requirements import Requirement
from typer.main import get_command

from runyard.cli.application import build_app
from runyard_sdk.ignore import source_rules
from runyard_sdk.snapshot import walk

REPOSITORY = Path(__file__).parents[1]
LIMIT = 600
EXCUSED: dict[str, int] = {}
"""Files that may be longer, with their own limit: a reviewed decision, never a by-product."""


@cache
def sources() -> tuple[str, ...]:
    """Files of the repository: those git tracks, or, in a checkout without git, those .gitignore does not name."""
    if shutil.which("git") is None or not (REPOSITORY / ".git").exists():
        found = (name for name, _, _ in walk(str(REPOSITORY), source_rules(str(REPOSITORY))))
        return tuple(name for name in found if not name.startswith(".git/"))
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return tuple(name for name in listed.stdout.split("\0") if name and (REPOSITORY / name).is_file())


def tracked(*patterns: str) -> list[str]:
    return [name for name in sources() if not patterns or any(fnmatch(name, pattern) for pattern in patterns)]


def test_files_stay_small() -> None:
    lines = {name: len((REPOSITORY / name).read_text(encoding="utf-8").splitlines()) for name in tracked("*.py")}
    long = {name: count for name, count in lines.items() if count > EXCUSED.get(name, LIMIT)}
    assert not long, f"Split these files by topic; their lines: {long}"


def test_every_excuse_is_still_needed() -> None:
    for name in EXCUSED:
        assert len((REPOSITORY / name).read_text(encoding="utf-8").splitlines()) > LIMIT, name


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty_names = {"utils", "helpers", "common", "manager", "base", "misc", "util", "helper"}
    ours = tracked("packages/*.py", "tests/*.py", "bench/*.py", "seeds/*.py")
    assert not [name for name in ours if Path(name).stem.lstrip("_") in empty_names]


HIDDEN_IMPORTS = {
    "runyard.cli.backups": 1,
    "runyard.cli.main": 2,
    "runyard.data.datastores.root_creation": 1,
    "runyard.environments.builder": 1,
    "runyard.node.exit_keeper": 1,
    "runyard.server.lifecycle.process": 1,
    "runyard.server.lifecycle.public_listener": 1,
    "runyard.server.metrics.server_metrics": 1,
    "runyard.server.metrics.traces": 1,
}
"""Imports of our own modules inside functions, by module. Each keeps something heavy out of a quick start, and says so
in a comment; none is there to dodge a cycle."""
MOST_HIDDEN_IMPORTS = 10


@cache
def tree(package: Path) -> Tree:
    return Tree(package)


def test_imports_inside_functions_are_few_and_known() -> None:
    hidden = tree(PACKAGES[0]).hidden()
    assert len(hidden) <= MOST_HIDDEN_IMPORTS, hidden
    assert Counter(place.partition(":")[0] for place in hidden) == HIDDEN_IMPORTS, hidden


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_modules_import_each_other_in_a_circle(package: Path) -> None:
    assert tree(package).cycles() == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_small_modules_with_one_importer_are_named(package: Path) -> None:
    """A warning only: most belong into their importer, some are an idea of their own."""
    if small := tree(package).small_with_one_importer():
        count = f"{len(small)} modules below {SMALL_LINES} lines have one importer"
        warnings.warn(f"{count}: {', '.join(small)}", stacklevel=1)


# Put together here, so that this file does not find itself.
OF_ONE_MACHINE = re.compile(r"(?<![\w./}$)\]])/(?:root|work|opt/wheels|opt/pypi)/[\w.]")
REGISTRIES = re.compile("|".join(re.escape(f"{host}.org") for host in ("pypi", "pythonhosted", "npmjs", "anaconda")))


def test_nothing_of_one_machine_or_registry_is_written_down() -> None:
    places = [place for name in tracked() if (place := _of_one_machine(name))]
    assert not places, "\n".join(places)


def _of_one_machine(name: str) -> str:
    try:
        text = (REPOSITORY / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""  # pictures and packed data hold no addresses that anybody reads
    found = OF_ONE_MACHINE.search(text) or REGISTRIES.search(text)
    return "" if found is None else f"{name}: ...{text[max(0, found.start() - 40) : found.end() + 40]!r}..."


def test_the_oldest_python_of_the_sdk_can_build_it() -> None:
    sdk = tomllib.loads((REPOSITORY / "packages" / "sdk" / "pyproject.toml").read_text(encoding="utf-8"))
    (setuptools,) = map(Requirement, sdk["build-system"]["requires"])
    assert setuptools.specifier.contains("59.6.0"), "the last setuptools of Python 3.6"
    assert "project" not in sdk, "that setuptools reads setup.cfg and no metadata of pyproject.toml"


def headings(page: str) -> set[str]:
    lines = (REPOSITORY / "docs" / page).read_text(encoding="utf-8").splitlines()
    return {line.lstrip("#").strip() for line in lines if line.startswith("#")}


def commands(group: object, path: str) -> list[str]:
    if not hasattr(group, "list_commands"):
        return [path]
    inner = [(name, group.get_command(None, name)) for name in group.list_commands(None)]  # type: ignore[attr-defined]
    return [command for name, child in inner for command in commands(child, f"{path} {name}")]


def all_commands() -> list[str]:
    app: typer.Typer = build_app(in_terminal=False)
    return commands(get_command(app), "runyard")


def test_every_command_has_a_heading_in_the_docs() -> None:
    assert not set(all_commands()) - headings("cli.md")


def test_the_docs_name_no_command_that_is_gone() -> None:
    documented = {heading for heading in headings("cli.md") if heading.startswith("runyard ")}
    assert documented <= set(all_commands())


def all_settings() -> set[str]:
    """Every variable of ours that the sources read: quoted, or named by a settings table."""
    found: set[str] = set()
    for name in tracked("packages/*/src/*.py"):
        found.update(re.findall(r"[\"'](RUNYARD_[A-Z_]+)[\"']", (REPOSITORY / name).read_text(encoding="utf-8")))
    return found


def test_every_setting_has_a_heading_in_the_docs() -> None:
    settings = all_settings()
    assert "RUNYARD_HOME" in settings
    assert not settings - headings("settings.md")


def test_the_pins_hold_no_address() -> None:
    pins = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[\w.!+]+", line)] == []
