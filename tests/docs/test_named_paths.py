"""Pages that tell contributors where things are name files, classes and targets that there are."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ROOTS = (REPOSITORY, REPOSITORY / "packages" / "runyard" / "src", REPOSITORY / "packages" / "sdk" / "src")
PAGES = ("CONTRIBUTING.md", "SECURITY.md", "docs/extending.md", "docs/glossary.md")
CODE = re.compile(r"`([^`\n]+)`")
A_PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:md|toml|txt|json|cfg)")
ROW = re.compile(r"^\| ([\w ()]+) \| .* \| ((?:`\w+`, )?`[\w/.]+`) \|$", re.MULTILINE)
NOT_OF_THE_REPOSITORY = {"./outputs", "dist/", "requirements.lock"}


def text_of(page: str) -> str:
    return (REPOSITORY / page).read_text(encoding="utf-8")


def spans(page: str) -> list[str]:
    return CODE.findall(re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL))


def found(path: str) -> Path | None:
    return next((root / path for root in ROOTS if (root / path).exists()), None)


def paths(page: str) -> set[str]:
    return {span for span in spans(page) if A_PATH.fullmatch(span)} - NOT_OF_THE_REPOSITORY


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_is_there(page: str) -> None:
    in_a_home = text_of("docs/wire.md")
    assert sorted(path for path in paths(page) if found(path) is None and f"`{path}" not in in_a_home) == []


def test_the_page_on_extending_names_many_paths() -> None:
    assert len(paths("docs/extending.md")) > 30


def test_every_test_file_of_a_command_is_there() -> None:
    named = {path for page in PAGES for path in re.findall(r"\btests/[\w/.]*\w", text_of(page))}
    assert named
    assert sorted(path for path in named if not (REPOSITORY / path).exists()) == []


def test_every_target_that_a_page_names_is_there() -> None:
    makefile = text_of("Makefile")
    targets = set(re.findall(r"^([\w./$()%-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        for command in re.findall(r"\bmake((?: [a-z.][\w./-]*)+)", " ".join(re.findall(r"`+[^`]*`+", text_of(page)))):
            for target in command.split():
                area = target.removeprefix("test-")
                is_area = target.startswith("test-") and (found(f"tests/{area}") or found(f"tests/test_{area}.py"))
                assert is_area or target.replace(".venv", "$(VENV)") in targets, (page, target)


ROWS = ROW.findall(text_of("docs/glossary.md"))


def test_the_glossary_has_every_row_in_the_form_that_is_checked() -> None:
    rows = [line for line in text_of("docs/glossary.md").splitlines() if line.startswith("| ")]
    assert len(ROWS) == len([line for line in rows if not line.startswith("| word |")]) > 30


@pytest.mark.parametrize(("word", "where"), ROWS, ids=[word for word, _ in ROWS])
def test_a_word_of_the_glossary_is_held_where_it_says(word: str, where: str) -> None:
    *names, path = CODE.findall(where)
    file = found(path)
    assert file is not None
    source = file.read_text(encoding="utf-8")
    for name in names:
        assert re.search(rf"^(?:class |def )?{name}\b", source, re.MULTILINE), f"{word}: no {name} in {path}"
