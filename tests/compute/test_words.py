"""Runyard names no cluster software outside of the package that speaks with it."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "packages" / "runyard" / "src" / "runyard"


def test_one_kind_of_compute_is_named_in_its_own_package_alone() -> None:
    own = SOURCE / "compute" / "ray"
    texts = {file: file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py") if own not in file.parents}
    assert len(texts) > 500
    lines = [
        f"{file.relative_to(SOURCE)}: {line.strip()}"
        for file, text in texts.items()
        for line in text.splitlines()
        if re.search(r"\bray\b", line, re.IGNORECASE)
    ]
    assert lines == []
