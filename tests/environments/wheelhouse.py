"""Tiny packages made on the spot, so that real uv builds need no network."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

BACKEND = """
import os, zipfile

def get_requires_for_build_wheel(config_settings=None):
    return []

def build_wheel(folder, config_settings=None, metadata_directory=None):
    exec({work!r})
    gate = {gate!r}
    if gate and os.path.exists(gate + ".entered"):
        open(gate + ".entered", "w").close()
        open(gate + ".leave").close()
    name = "{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for path, text in {files!r}.items():
            wheel.writestr(path, text)
    return name
"""


def add_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    needs: str = "",
    module: str = "",
    needs_python: str = "",
    tag: str = "py3-none-any",
) -> None:
    """A wheel with one module of its name and a console script `NAME-where` that prints sys.prefix."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inner, text in _files(name, version, needs, module, needs_python).items():
            wheel.writestr(inner, text)


def add_source(folder: Path, name: str, version: str, *, gate: str = "", work: str = "") -> None:
    """A source package whose build first does `work`, in Python, and waits at the named pipes GATE.entered and
    GATE.leave while they exist."""
    folder.mkdir(parents=True, exist_ok=True)
    backend = BACKEND.format(name=name, version=version, files=_files(name, version, "", ""), gate=gate, work=work)
    contents = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[project]\nname = "{name}"\nversion = "{version}"\n',
        "backend.py": backend,
        "PKG-INFO": f"Metadata-Version: 2.2\nName: {name}\nVersion: {version}\n",
    }
    with tarfile.open(folder / f"{name}-{version}.tar.gz", "w:gz") as archive:
        for inner, text in contents.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{inner}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))


def _files(name: str, version: str, needs: str, module: str, needs_python: str = "") -> dict[str, str]:
    info = f"{name}-{version}.dist-info"
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    requires += f"Requires-Python: {needs_python}\n" if needs_python else ""
    return {
        f"{name}.py": module or f"import sys\nversion = {version!r}\ndef where():\n    print(sys.prefix)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-where = {name}:where\n",
        f"{info}/RECORD": "",
    }


def submitter_without_index(folder: Path, wheels: Path) -> dict[str, str]:
    """The variables of somebody whose packages come from the folder `wheels`, which is made, and from nowhere else."""
    wheels.mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "nobody"),
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_INDEX": "1",
        "UV_CACHE_DIR": str(folder / "uv-cache"),
    }
