"""A small stand-in for Horovod, compiled for real against a stand-in for TensorFlow; nothing comes from a network."""

import importlib.metadata
import io
import tarfile
import zipfile
from pathlib import Path

from tests.environments.wheelhouse import add_wheel

PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
BACKEND = '''
import os, subprocess, sysconfig, tempfile, zipfile
import tensorflow

NAME, VERSION, GATE = "horovod", {version!r}, {gate!r}
INFO = NAME + "-" + VERSION + ".dist-info"
FILES = {{
    INFO + "/METADATA": "Metadata-Version: 2.1\\nName: horovod\\nVersion: " + VERSION + "\\n",
    INFO + "/WHEEL": "Wheel-Version: 1.0\\nGenerator: tests\\nRoot-Is-Purelib: false\\nTag: py3-none-any\\n",
    INFO + "/RECORD": "",
}}
SOURCE = """
#include <Python.h>
static PyObject* against(PyObject*, PyObject*) {{ return PyUnicode_FromString(AGAINST); }}
static PyMethodDef methods[] = {{{{"against", against, METH_NOARGS, ""}}, {{0, 0, 0, 0}}}};
static PyModuleDef module = {{PyModuleDef_HEAD_INIT, "horovod", "", -1, methods}};
PyMODINIT_FUNC PyInit_horovod() {{ return PyModule_Create(&module); }}
"""

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    os.mkdir(os.path.join(folder, INFO))
    for name, text in FILES.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    return INFO

def build_wheel(folder, config_settings=None, metadata_directory=None):
    assert os.environ["HOROVOD_WITH_TENSORFLOW"] == os.environ["HOROVOD_WITH_MPI"] == "1", os.environ
    if GATE and os.path.exists(GATE + ".entered"):
        open(GATE + ".entered", "w").close()
        open(GATE + ".leave").close()
    scratch = tempfile.mkdtemp()
    source, library = os.path.join(scratch, "horovod.cc"), os.path.join(scratch, "horovod.so")
    with open(source, "w") as file:
        file.write(SOURCE)
    with open(os.path.join(scratch, "ballast"), "wb") as file:
        file.write(bytes({ballast}))
    against = '-DAGAINST="' + tensorflow.version + '"'
    include = sysconfig.get_paths()["include"]
    subprocess.check_call(["g++", "-shared", "-fPIC", against, "-I", include, source, "-o", library])
    name = NAME + "-" + VERSION + "-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for inner, text in FILES.items():
            wheel.writestr(inner, text)
        wheel.write(library, "horovod.so")
    return name
'''


def add_horovod(wheels: Path, version: str = "0.16.1", *, gate: str = "", ballast: int = 0) -> None:
    """Its source, and all that must be beside it. It waits at the named pipes GATE.entered and GATE.leave while they
    exist, and writes so many bytes while it builds."""
    for name in ("cffi", "psutil", "cloudpickle", "pyyaml", "six", "packaging", "wheel"):
        add_wheel(wheels, name, "1.0")
    add_wheel(wheels, "setuptools", "50.0")
    _add_pip(wheels)
    contents = {
        "pyproject.toml": f'{PYPROJECT}[project]\nname = "horovod"\nversion = "{version}"\n',
        "backend.py": BACKEND.format(version=version, gate=gate, ballast=ballast),
        "PKG-INFO": f"Metadata-Version: 2.2\nName: horovod\nVersion: {version}\n",
    }
    with tarfile.open(wheels / f"horovod-{version}.tar.gz", "w:gz") as archive:
        for inner, text in contents.items():
            entry = tarfile.TarInfo(f"horovod-{version}/{inner}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))


def add_open_mpi(folder: Path, version: str = "4.1.4", *, programs: tuple[str, ...] = ("mpirun", "mpicxx")) -> None:
    """Programs that say they are Open MPI, in a folder for PATH."""
    folder.mkdir(exist_ok=True)
    for name in programs:
        (folder / name).write_text(f"#!/bin/sh\necho '{name} (Open MPI) {version}'\n")
        (folder / name).chmod(0o755)


def _add_pip(wheels: Path) -> None:
    """The pip of these tests, as a wheel."""
    installed = importlib.metadata.distribution("pip")
    with zipfile.ZipFile(wheels / f"pip-{installed.version}-py3-none-any.whl", "w") as wheel:
        for file in installed.files or ():
            if file.parts[0] != ".." and "__pycache__" not in file.parts:
                wheel.write(str(file.locate()), str(file))
