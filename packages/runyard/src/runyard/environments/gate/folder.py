from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote, unquote

from runyard.environments.gate.answer import PAGE, Answer, page

PACKAGES = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz", ".egg")
INDEX = "index.html"


@dataclass(frozen=True)
class PackageFolder:
    """Serves a local folder of packages as pages of links. Serves no files but packages."""

    folder: Path

    def answer(self, path: str, method: str, own: str) -> Answer:
        """Respond to a request for a `path` in the folder."""
        top = self.folder.resolve()
        wanted = (top / unquote(path)).resolve()
        if not wanted.is_relative_to(top):
            return page("not here", 404)
        if wanted.is_dir():
            index = wanted / INDEX
            return _file(index, PAGE) if _is_below(index, top) else page(_links(wanted))
        if wanted.name.endswith(PACKAGES) and wanted.is_file():
            return _file(wanted, "application/octet-stream")
        return page("not here", 404)


def _is_below(file: Path, top: Path) -> bool:
    return file.is_file() and file.resolve().is_relative_to(top)


def _file(file: Path, kind: str) -> Answer:
    content = file.open("rb")
    return Answer(200, content, {"Content-Type": kind, "Content-Length": str(file.stat().st_size)})


def _links(folder: Path) -> str:
    names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in sorted(folder.iterdir())]
    rows = (f'<a href="{quote(name)}">{escape(name)}</a>' for name in names if name.endswith((*PACKAGES, "/")))
    return "<!DOCTYPE html>\n" + "<br>\n".join(rows)
