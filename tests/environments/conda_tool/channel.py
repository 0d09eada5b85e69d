"""A conda channel on disk, its packages made on the spot."""

import bz2
import hashlib
import io
import json
import os
import platform
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SUBDIR = "linux-64"
MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"
SITE = f"lib/python{MINOR}/site-packages"


@dataclass
class CondaChannel:
    """Its `address` can be solved from once a package was added."""

    folder: Path
    _packages: dict[str, dict[str, object]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"file://{self.folder}"

    def add(
        self,
        name: str,
        version: str,
        files: Mapping[str, str],
        *,
        needs: Sequence[str] = (),
        links: Mapping[str, str] | None = None,
        build: str = "0",
    ) -> Path:
        """A package of these files, by their paths in a prefix, and of links with what they lead to."""
        index = {
            "name": name,
            "version": version,
            "build": build,
            "build_number": 0,
            "depends": list(needs),
            "subdir": SUBDIR,
        }
        archive = self.folder / SUBDIR / f"{name}-{version}-{build}.tar.bz2"
        archive.parent.mkdir(parents=True, exist_ok=True)
        _write_archive(archive, index, files, links or {})
        content = archive.read_bytes()
        self._packages[archive.name] = {
            **index,
            "md5": hashlib.md5(content).hexdigest(),
            "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content),
        }
        self._write_index(SUBDIR, self._packages)
        self._write_index("noarch", {})
        return archive

    def add_python(self, version: str = platform.python_version()) -> None:
        """This very interpreter, started by a link: what tells a prefix of it from another is the same as in a virtual
        environment. And pip, which conda puts beside every Python."""
        program = os.path.realpath(sys.executable)
        settings = f"home = {os.path.dirname(program)}\ninclude-system-site-packages = false\n"
        files = {"pyvenv.cfg": settings, f"{SITE}/README.txt": "packages\n"}
        self.add("python", version, files, links={"bin/python": program, f"bin/python{MINOR}": "python"})
        self.add("pip", "1.0", {f"{SITE}/pip-is-here.txt": "\n"})

    def add_module(self, name: str, version: str, *, needs: Sequence[str] = (), build: str = "0") -> Path:
        """A Python package with a module of its name and the facts that pip finds it by."""
        info = f"{SITE}/{name}-{version}.dist-info"
        files = {
            f"{SITE}/{name}.py": f"version = {version!r}\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/INSTALLER": "conda\n",
            f"{info}/RECORD": f"{name}.py,,\n{name}-{version}.dist-info/METADATA,,\n",
        }
        return self.add(name, version, files, needs=["python", *needs], build=build)

    def _write_index(self, subdir: str, packages: Mapping[str, object]) -> None:
        folder = self.folder / subdir
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"info": {"subdir": subdir}, "packages": packages, "packages.conda": {}}).encode()
        (folder / "repodata.json").write_bytes(text)
        (folder / "repodata.json.bz2").write_bytes(bz2.compress(text))


def _write_archive(
    archive: Path, index: Mapping[str, object], files: Mapping[str, str], links: Mapping[str, str]
) -> None:
    facts = {
        "info/index.json": json.dumps(index),
        "info/files": "".join(f"{path}\n" for path in [*files, *links]),
        "info/paths.json": json.dumps(
            {"paths": [*map(_file_entry, files.items()), *map(_link_entry, links)], "paths_version": 1}
        ),
    }
    with tarfile.open(archive, "w:bz2") as tar:
        for path, text in {**files, **facts}.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text.encode()), 0o755 if path.startswith("bin/") else 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
        for path, leads_to in links.items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, leads_to
            tar.addfile(entry)


def _file_entry(file: tuple[str, str]) -> dict[str, object]:
    path, text = file
    content = text.encode()
    digest = hashlib.sha256(content).hexdigest()
    return {"_path": path, "path_type": "hardlink", "sha256": digest, "size_in_bytes": len(content)}


def _link_entry(path: str) -> dict[str, object]:
    return {"_path": path, "path_type": "softlink", "sha256": hashlib.sha256(b"").hexdigest(), "size_in_bytes": 0}
