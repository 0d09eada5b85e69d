import subprocess
import sys
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
HOOK = REPOSITORY / ".githooks" / "commit-msg"


def refused(message: str, folder: Path) -> str:
    """What the hook says against a message; '' where it takes it."""
    (folder / "message").write_text(message, encoding="utf-8")
    done = subprocess.run([HOOK, folder / "message"], capture_output=True, text=True)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr


@pytest.mark.parametrize(
    "subject",
    [
        "sweeps: read logged metrics with one query",
        "web, tests: hold the head limit on the last piece; steadier garbage test",
        "docs: say „größer“ where a byte count is meant" + " " + "ä" * 25,
        "Merge branch 'door'",
        'Revert "node: retry a cut upload"',
        "fixup! node: retry a cut upload",
    ],
)
def test_a_good_subject_is_taken(subject: str, tmp_path: Path) -> None:
    assert refused(f"{subject}\n\nWhy it was needed.\n", tmp_path) == ""


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("node: " + "a" * 67, "has 73 characters"),
        ("Retry a cut upload", "must begin with its area"),
        ("node: Retry a cut upload", "a verb in lower case"),
        ("node retry: ", "must begin with its area"),
        ("", "must begin with its area"),
        ("node: retry a cut upload.", "without a full stop"),
        ("node: retry a cut upload\nbecause it may be cut", "second line must be empty"),
    ],
)
def test_another_one_is_refused_with_the_reason(message: str, why: str, tmp_path: Path) -> None:
    assert why in refused(message, tmp_path)


def test_the_hooks_of_pre_commit_need_nothing_but_the_environment_of_the_checkout() -> None:
    config = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [one["repo"] for one in config["repos"]] == ["local"]
    hooks = config["repos"][0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    for hook in hooks:
        program = hook["entry"].split()[0].replace(".venv/bin", str(Path(sys.executable).parent))
        assert (REPOSITORY / program).is_file(), hook
