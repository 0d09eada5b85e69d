import contextlib
import io
import os
import stat
import tempfile
import unittest
from unittest import mock

from azureml.core import Environment

EXPORT = """name: theirs
channels:
  - conda-forge
dependencies:
  - numpy=1.16.4=py36h99e49ec_0
  - python=3.6.2
  - scipy==1.2.1
  - pip:
    - "azureml-defaults==1.0"
prefix: /somewhere/envs/theirs
"""
PROGRAM = """#!/bin/sh
echo "$@" > %s/asked
cat %s/export
exit %d
"""


class OfThisMachine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        patch = mock.patch.dict(os.environ, {"PATH": self.folder + os.pathsep + "/usr/bin:/bin"})
        patch.start()
        self.addCleanup(patch.stop)
        for name in ("CONDA_EXE", "MAMBA_EXE"):
            os.environ.pop(name, None)

    def install(self, name, exported=EXPORT, status=0):
        with open(os.path.join(self.folder, "export"), "w") as file:
            file.write(exported)
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(PROGRAM % (self.folder, self.folder, status))
        os.chmod(path, stat.S_IRWXU)

    def asked(self):
        with open(os.path.join(self.folder, "asked")) as file:
            return file.read().strip()

    def absent(self, name):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertIsNone(Environment.from_existing_conda_environment("e", name))
        return printed.getvalue()

    def test_it_is_taken_without_what_is_of_this_machine_alone(self):
        self.install("micromamba")
        conda = Environment.from_existing_conda_environment("e", "theirs").python.conda_dependencies
        self.assertEqual(list(conda.conda_packages), ["numpy=1.16.4", "python=3.6.2", "scipy==1.2.1"])
        self.assertEqual(list(conda.pip_packages), ["azureml-defaults==1.0"])
        self.assertNotIn("prefix", conda.as_dict())

    def test_a_name_is_never_an_option(self):
        self.install("conda")
        Environment.from_existing_conda_environment("e", "--help; $(true)")
        self.assertEqual(self.asked(), "env export --name=--help; $(true)")
        Environment.from_existing_conda_environment("e", "/opt/envs/x")
        self.assertEqual(self.asked(), "env export --prefix=/opt/envs/x")

    def test_where_it_cannot_be_had_a_line_says_why(self):
        self.assertIn("there is no conda, mamba, micromamba", self.absent("theirs"))
        self.install("conda", status=1)
        self.assertIn("exit status 1", self.absent("theirs"))
        self.install("conda", exported="a: *b\n")
        self.assertIn("does not print YAML", self.absent("theirs"))


if __name__ == "__main__":
    unittest.main()
