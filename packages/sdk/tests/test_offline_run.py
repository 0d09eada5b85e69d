import contextlib
import io
import os
import unittest

from azureml.core import Run
from azureml.core.run import _OfflineRun
from azureml.exceptions import RunEnvironmentException


class OutsideARun(unittest.TestCase):
    def setUp(self):
        for name in [name for name in os.environ if name.startswith("AZUREML_")]:
            value = os.environ.pop(name)
            self.addCleanup(os.environ.__setitem__, name, value)
        self.run_ = Run.get_context()

    def said_by(self, method, *args, **kwargs):
        sink = io.StringIO()
        with contextlib.redirect_stdout(sink):
            getattr(self.run_, method)(*args, **kwargs)
        return sink.getvalue()

    def test_the_context_is_an_offline_run_with_an_id_of_its_own(self):
        self.assertIsInstance(self.run_, _OfflineRun)
        self.assertRegex(self.run_.id, r"^OfflineRun_[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$")

    def test_what_is_logged_is_printed(self):
        self.assertEqual(self.said_by("log", "accuracy", 0.9), "Attempted to log scalar metric accuracy:\n0.9\n")
        self.assertEqual(self.said_by("log_list", "l", [1]), "Attempted to log list metric l:\n[1]\n")

    def test_log_takes_no_step(self):
        with self.assertRaises(TypeError):
            self.run_.log("a", 1, step=2)

    def test_the_members_that_need_a_service_are_missing(self):
        for name in ("experiment", "parent", "input_datasets", "output_datasets", "get_metrics", "get_file_names",
                     "register_model", "number", "tags", "properties", "display_name", "get_status", "get_details"):
            with self.assertRaises(AttributeError, msg=name):
                getattr(self.run_, name)

    def test_a_child_is_offline_too_and_can_be_entered(self):
        with self.run_.child_run("c") as child:
            self.assertTrue(child.id.startswith("OfflineRun_"))

    def test_without_leave_to_be_offline_it_is_an_error(self):
        with self.assertRaisesRegex(RunEnvironmentException, "AZUREML_RUN_ID"):
            Run.get_context(allow_offline=False)


if __name__ == "__main__":
    unittest.main()
