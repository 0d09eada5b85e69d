import os
import subprocess
import sys
from pathlib import Path

from tests.environments.conda_tool import micromamba


def install_micromamba(folder: Path) -> Path:
    """A program of that name in the folder, which starts the one beside this file."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "micromamba"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{micromamba.__file__}" "$@"\n')
    program.chmod(0o755)
    return program


def install_conda(folder: Path, python: str, uv: str) -> Path:
    """The last conda that the Python package index has, run by a Python of its time; the index is this process's."""
    inside = folder / "conda-itself/bin/python"
    environ = {**os.environ, "TMPDIR": str(folder)}
    packages = ["conda==4.3.16", "ruamel.yaml<0.16"]  # later ones are without what it calls
    subprocess.run([uv, "venv", "--quiet", "--python", python, str(inside.parents[1])], check=True, env=environ)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(inside), *packages], check=True, env=environ)
    program = folder / "conda"
    # Its own `conda` command only tells that pip is not how to install it.
    program.write_text(f'#!/bin/sh\nexec "{inside}" -m conda "$@"\n')
    program.chmod(0o755)
    return program
