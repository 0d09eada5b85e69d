import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")
SLOW = ("urllib.request", "http.client", "ssl", "uuid", "subprocess", "tempfile", "logging", "inspect", "datetime",
        "typing", "asyncio", "concurrent", "email", "socket", "dataclasses", "shutil")


def run_python(code, path=(SOURCE,), **variables):
    environment = {"PYTHONPATH": os.pathsep.join(path), "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    process = subprocess.Popen([sys.executable, "-S", "-c", code], env=dict(environment, **variables),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = process.communicate()[0].decode("utf-8")
    return process.returncode, said.strip()


class ImportingTheSdk(unittest.TestCase):
    def test_loads_none_of_the_slow_modules(self):
        code = "import sys; from azureml.core import *; print(*[name for name in {!r} if name in sys.modules])"
        self.assertEqual(run_python(code.format(SLOW)), (0, ""))

    def test_a_workspace_loads_urllib_request_because_scripts_lean_on_it(self):
        record = {"name": "default", "id": "1", "subscription_id": "s", "resource_group": "r", "location": "l"}
        code = ("import sys; from azureml.core import Workspace; assert 'urllib.request' not in sys.modules; "
                "Workspace('s', 'r', 'default', _record={!r}); assert 'urllib.request' in sys.modules".format(record))
        self.assertEqual(run_python(code), (0, ""))


    def test_its_siblings_are_known_without_an_import_of_their_own(self):
        code = "import azureml.core; print(azureml.data.__version__ == azureml.core.VERSION, azureml.exceptions.__name__)"
        self.assertEqual(run_python(code), (0, "True azureml.exceptions"))
        self.assertEqual(run_python("import azureml.core; print(hasattr(azureml, 'none'))"), (0, "False"))


class BesideTheOriginal(unittest.TestCase):
    """An environment that also holds azureml-core, told by its metadata folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = os.path.join(folder.name, "site-packages")
        os.makedirs(os.path.join(self.site, "azureml_core-1.61.0.dist-info"))

    def test_the_client_says_what_to_uninstall(self):
        code, said = run_python("import azureml.core", (SOURCE, self.site))
        self.assertEqual(code, 1)
        self.assertIn("pip uninstall -y azureml-core", said.splitlines()[-1])

    def test_inside_a_run_one_line_says_which_is_used(self):
        code, said = run_python("import azureml.core", (SOURCE, self.site), RUNYARD_JOURNALS="/nowhere")
        self.assertEqual((code, len(said.splitlines())), (0, 1))
        self.assertIn("azureml-core is installed in this environment and is not used", said)


if __name__ == "__main__":
    unittest.main()
