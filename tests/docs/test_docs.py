import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.records.environments import FailureCause, PackageSettings
from runyard.core.records.web_services import ServiceType
from runyard.environments.planning.docker_arguments import parse_docker_arguments
from runyard.serving.deployments.parameters import PARAMETERS
from tests.conftest import end_home
from tests.docs.markdown import anchors, lay_out, links, python_blocks

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("examples/**/*.md")])
PAGES_WITH_CODE = [page for page in PAGES if python_blocks(page)]


def name(page):
    return page.relative_to(REPOSITORY).as_posix()


@pytest.fixture
def environment(tmp_path):
    yield {**os.environ, "RUNYARD_HOME": str(tmp_path / "home")}
    end_home(tmp_path / "home")


def with_needs(page):
    return pytest.param(
        page, marks=[pytest.mark.needs("mpi")] if "MpiConfiguration" in page.read_text(encoding="utf-8") else []
    )


@pytest.mark.parametrize("page", [with_needs(page) for page in PAGES_WITH_CODE], ids=name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, environment, tmp_path):
    folder = tmp_path / "reader"
    folder.mkdir()
    program = lay_out(python_blocks(page), folder)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_of_a_page_resolves(page):
    broken = []
    for link in links(page):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(link)
    assert broken == []


def test_the_getting_started_page_has_code_that_is_run():
    assert REPOSITORY / "docs" / "getting-started.md" in PAGES_WITH_CODE


def test_the_page_of_web_services_has_every_parameter_with_its_effect():
    shown = {ServiceType.ACI: "ACI", ServiceType.AKS: "AKS", ServiceType.LOCAL: "local"}
    page = (REPOSITORY / "docs" / "serving.md").read_text(encoding="utf-8").splitlines()
    missing = []
    for parameter, facts in PARAMETERS.items():
        types = "all" if len(facts.types) == len(shown) else ", ".join(shown[t] for t in shown if t in facts.types)
        row = f"| `{parameter}` | {types} | {facts.effect or 'none'} |"
        if row not in page:
            missing.append(row)
    assert missing == []


def first_cells(page, heading):
    """The codes in the first column of the tables below a heading."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    return re.findall(r"^\| `(\w+)` \|", text.partition("\n## ")[0], re.MULTILINE)


def test_the_page_of_environments_tells_of_every_cause_of_failure():
    assert first_cells("environments.md", "When it fails") == list(FailureCause)


def test_the_page_of_environments_has_every_setting_of_packages():
    assert first_cells("environments.md", "Where packages come from") == [one.name for one in fields(PackageSettings)]


def test_the_page_of_environments_names_every_docker_argument_that_is_followed():
    with pytest.raises(InvalidArgument) as refused:
        parse_docker_arguments(["--no-such-option"])
    known = set(re.findall(r"--[a-z-]+", refused.value.hint))
    page = (REPOSITORY / "docs" / "environments.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| `docker.arguments`.*$", page, re.MULTILINE)
    assert set(re.findall(r"`(--[a-z-]+)`", row)) == known
