"""PyYAML and the SDK's own reader: one text has one value, whichever reads it."""

import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from azureml import _yaml
from azureml._yaml import YamlError, dumps, parser
from azureml._yaml.values import Builder, checked_text

pytestmark = pytest.mark.slow

TEXTS = runpy.run_path(str(Path(__file__).parents[2] / "packages" / "sdk" / "tests" / "conda_texts.py"))["TEXTS"]
PIECES = (
    *("a", "b: ", "- ", "-", "key: ", "k:", "\n", "\n  ", "\n    ", "\n ", "\n\n", " ", "  ", "# c", " # c", "x y"),
    *("1", "&x ", "&y", "*x", "*y", "<<: ", "<<: *x", "|", "|-", "|+", "|2", ">", ">-", ">2+", "[", "]", "{", "}", ","),
    *(", ", ": ", ":", "'", '"', "''", "\\n", "\\", "\\x41", "1.5", "yes", "~", "null", "2020-01-01", "---", "..."),
    *("\n---\n", "?", "!", "%", "@", "\t", "é", "a#b", "::", "-x", '"q": ', "'s'", "\n- ", "\n  - ", "\na: "),
    *("\n  b: ", "\n  c: &x", "\n<<: *x", "\\u2028", "-- ", "? "),
)
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,12}", fullmatch=True)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\u2028\u2029"))
PACKAGES = st.one_of(
    NAMES,
    st.builds("{}=={}.{}".format, NAMES, st.integers(0, 30), st.integers(0, 30)),
    st.builds("{}>={}, <{} # not a comment".format, NAMES, st.integers(0, 9), st.integers(9, 30)),
    st.builds("--extra-index-url https://{}/simple?x={}#y".format, NAMES, NAMES),
    TEXT.map(lambda text: f"text {text}"),
)
PIP = st.fixed_dictionaries({"pip": st.lists(PACKAGES, max_size=5)})
CONDA = st.fixed_dictionaries(
    {"name": NAMES, "dependencies": st.lists(PACKAGES | PIP)},
    optional={"channels": st.lists(NAMES), "prefix": NAMES, "variables": st.dictionaries(NAMES, PACKAGES)},
)
STYLES = st.fixed_dictionaries(
    {
        "default_flow_style": st.sampled_from([None, True, False]),
        "default_style": st.sampled_from([None, "'", '"', "|", ">"]),
        "indent": st.integers(2, 8),
        "width": st.integers(20, 200),
        "allow_unicode": st.booleans(),
        "explicit_start": st.booleans(),
        "explicit_end": st.booleans(),
        "sort_keys": st.booleans(),
        "line_break": st.sampled_from(["\n", "\r\n"]),
    }
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=15,
)


def by_our_reader(text: str) -> Any:
    builder = Builder()
    parser.read(checked_text(text), builder)
    return builder.value


def by_pyyaml(text: str) -> Any:
    builder = Builder()
    _yaml._read_with_library(yaml, checked_text(text), builder)
    return builder.value


@pytest.mark.parametrize("name", TEXTS)
def test_conda_files_as_users_write_them(name: str) -> None:
    value = by_our_reader(TEXTS[name])
    assert value == by_pyyaml(TEXTS[name])
    assert value == yaml.safe_load(TEXTS[name])


@settings(max_examples=150, deadline=None)
@given(CONDA, STYLES)
def test_conda_files_in_every_style_of_pyyaml(conda: dict[str, Any], style: dict[str, Any]) -> None:
    shared = [*conda["dependencies"], "one"]
    text = yaml.safe_dump({**conda, "shared": shared, "again": [shared, {"more": shared}]}, **style)
    value = by_our_reader(text)
    assert value == by_pyyaml(text)
    assert value == yaml.safe_load(text)


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
@example("a: |\n\n   x\n  y\n")
@example('"q": a\n&x \na: 1')
@example("- \n  - \n  - -")
def test_any_text_that_our_reader_takes_has_the_value_that_pyyaml_gives(text: str) -> None:
    try:
        value = by_our_reader(text)
    except YamlError:
        return
    assert repr(value) == repr(by_pyyaml(text))


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_what_the_sdk_writes_is_read_back_by_both(value: Any) -> None:
    text = dumps(value)
    assert by_our_reader(text) == value
    assert by_pyyaml(text) == value


def test_folded_text_takes_no_longer_than_other_text() -> None:
    lines, seconds = " a\n" * 300_000, []
    for mark, end in (("|", "\n"), (">", " ")):
        began = time.process_time()
        assert by_our_reader(f"{mark}\n{lines}") == end.join(["a"] * 300_000) + "\n"
        seconds.append(time.process_time() - began)
    assert seconds[1] < 5 * seconds[0] + 0.1


def test_the_sdk_loads_pyyaml_only_to_read_a_file(tmp_path: Path) -> None:
    path = tmp_path / "conda.yml"
    path.write_text("dependencies:\n- python=3.8\n")
    code = (
        "import sys; from azureml.core import *; from azureml.core.conda_dependencies import CondaDependencies\n"
        "CondaDependencies.create(pip_packages=['numpy']).save(sys.argv[1] + '.saved')\n"
        "assert 'yaml' not in sys.modules\n"
        "CondaDependencies(sys.argv[1]); print('yaml' in sys.modules, 'azureml._yaml.parser' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True False\n", "")
