"""What the tests read out of a Markdown page: its Python blocks, its links and its headings."""

import re
from pathlib import Path

PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENGINE_BLOCK = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANY_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FILE_NAME = re.compile(r"# ([\w/.-]+\.py)\n")


def python_blocks(page: Path) -> list[str]:
    return PYTHON_BLOCK.findall(page.read_text(encoding="utf-8"))


def engine_blocks(page: Path) -> list[str]:
    """Those that need a container engine, marked `py`: tests/images runs them."""
    return ENGINE_BLOCK.findall(page.read_text(encoding="utf-8"))


def file_name(block: str) -> str | None:
    """A block that begins with a comment `# name.py` is that file, not something to run."""
    first = FILE_NAME.match(block)
    return first.group(1) if first else None


def lay_out(blocks: list[str], folder: Path) -> str:
    """Write the blocks that are files below `folder`; the others as one program."""
    program = []
    for block in blocks:
        file = file_name(block)
        if file:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(block, encoding="utf-8")
        else:
            program.append(block)
    return "\n".join(program)


def links(page: Path) -> list[str]:
    return LINK.findall(_prose(page))


def anchors(page: Path) -> set[str]:
    return {_slug(heading) for heading in HEADING.findall(_prose(page))}


def _prose(page: Path) -> str:
    return ANY_BLOCK.sub("", page.read_text(encoding="utf-8"))


def _slug(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")
