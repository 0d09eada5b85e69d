import os
from pathlib import Path

Mark = list[int]
Marks = dict[str, Mark]
"""By path relative to some root."""


def mark_of(file: Path) -> Mark:
    """Size and times of a file, to tell whether it changed; ctime, because a script may set mtime back."""
    found = file.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def marks_below(root: Path) -> Marks:
    files = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
    return {file.relative_to(root).as_posix(): mark_of(file) for file in files}
