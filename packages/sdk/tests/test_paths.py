import os
import unittest

from azureml._paths import below_folder
from azureml.core._run_files import checked_artifact
from azureml.exceptions import UserErrorException

LEAVE = ("..\\x", "a\\..\\x", "../x", "a/../../x", "/x", "\\x", "C:\\x", "C:x", "c:/x", "a\0b")


class Below(unittest.TestCase):
    def test_a_name_that_would_leave_the_folder_on_any_system_is_refused(self):
        for name in LEAVE + ("",):
            with self.assertRaisesRegex(UserErrorException, "leaves its folder"):
                below_folder("/folder", name)

    def test_other_names_lie_below_it(self):
        for name in ("a", "a/b", "a\\b", "x..y/z", "ab:c"):
            self.assertEqual(below_folder("/folder", name), os.path.join("/folder", *name.split("/")))

    def test_none_of_them_is_uploaded(self):
        for name in LEAVE:
            with self.assertRaises(UserErrorException):
                checked_artifact(name)


if __name__ == "__main__":
    unittest.main()
