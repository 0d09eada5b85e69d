import os
import sys
import tempfile
import unittest

from azureml.core.model import _client_facts


class WhatAModelWasMadeWith(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = folder.name
        sys.path.insert(0, self.site)
        self.addCleanup(sys.path.remove, self.site)

    def installed(self, *names):
        for name in names:
            os.mkdir(os.path.join(self.site, name))

    def test_the_packages_of_its_framework_are_told_with_their_versions(self):
        self.installed("scikit_learn-0.22.1.dist-info", "numpy-1.18.1.dist-info", "torch-1.0.dist-info",
                       "joblib-0.14.1-py3.6.egg-info", "imbalanced.learn-0.6.dist-info")
        found = _client_facts("ScikitLearn")
        self.assertEqual(found["python"], "%d.%d" % sys.version_info[:2])
        for name, version in (("scikit-learn", "0.22.1"), ("numpy", "1.18.1"), ("joblib", "0.14.1"),
                              ("imbalanced-learn", "0.6")):
            self.assertEqual(found["packages"][name], version)
        self.assertNotIn("torch", found["packages"])

    def test_what_comes_first_on_the_path_counts(self):
        with tempfile.TemporaryDirectory() as later:
            os.mkdir(os.path.join(later, "torch-0.1.dist-info"))
            sys.path.append(later)
            self.addCleanup(sys.path.remove, later)
            self.installed("torch-1.0+cpu.dist-info")
            self.assertEqual(_client_facts("PyTorch")["packages"]["torch"], "1.0+cpu")

    def test_nothing_is_imported_and_paths_that_are_not_there_do_no_harm(self):
        sys.path.append(os.path.join(self.site, "absent"))
        self.addCleanup(sys.path.remove, sys.path[-1])
        before = set(sys.modules)
        _client_facts("TensorFlow")
        self.assertEqual(set(sys.modules) - before, set())

    def test_no_package_is_told_where_the_framework_is_not(self):
        self.installed("numpy-1.18.1.dist-info")
        self.assertEqual(_client_facts("Chainer")["packages"], {})

    def test_where_no_framework_is_said_those_that_are_here_are_told(self):
        self.installed("scikit_learn-0.22.1.dist-info", "scipy-1.4.1.dist-info", "requests-2.0.dist-info")
        for framework in (None, "Custom"):
            found = _client_facts(framework)["packages"]
            self.assertEqual((found["scikit-learn"], found["scipy"]), ("0.22.1", "1.4.1"))
            self.assertNotIn("requests", found)
            self.assertNotIn("chainer", found)


if __name__ == "__main__":
    unittest.main()
