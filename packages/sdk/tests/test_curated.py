import unittest

from azureml.core import Environment
from azureml.core._curated_environments import curated_names
from azureml.exceptions import UserErrorException


class CuratedEnvironments(unittest.TestCase):
    def get(self, name, **more):
        return Environment.get(None, name, **more)

    def test_each_has_a_python_and_its_packages(self):
        for name in curated_names():
            conda = self.get(name).python.conda_dependencies
            self.assertRegex(conda.get_python_version(), r"^3\.\d+(\.\d+)?$", name)
            self.assertIn("azureml-defaults", list(conda.pip_packages)[0])

    def test_framework_and_release_are_those_of_the_name(self):
        for name, package in (("AzureML-TensorFlow-1.13-CPU", "tensorflow==1.13.*"),
                              ("AzureML-TensorFlow-2.0-GPU", "tensorflow-gpu==2.0.*"),
                              ("AzureML-PyTorch-1.6-GPU", "torch==1.6.*"),
                              ("AzureML-Chainer-5.1.0-GPU", "chainer==5.1.0"),
                              ("AzureML-sklearn-0.24-ubuntu18.04-py37-cpu", "scikit-learn==0.24.1"),
                              ("AzureML-ACPT-pytorch-1.13-py38-cuda11.7-gpu", "torch==1.13.1"),
                              ("AzureML-lightgbm-3.2-ubuntu18.04-py37-cpu", "lightgbm==3.2.*"),
                              ("AzureML-xgboost-0.9-ubuntu18.04-py37-cpu-inference", "xgboost==0.90")):
            self.assertIn(package, list(self.get(name).python.conda_dependencies.pip_packages))

    def test_any_version_and_letter_case_is_the_same_environment(self):
        made = self.get("AzureML-acpt-PyTorch-2.2-cuda12.1", version=10)
        self.assertEqual((made.name, made.version), ("AzureML-acpt-PyTorch-2.2-cuda12.1", "10"))
        self.assertIn("torch==2.2.2", list(made.python.conda_dependencies.pip_packages))

    def test_an_unknown_one_is_told_with_those_near_it(self):
        with self.assertRaisesRegex(UserErrorException, "no environment 'AzureML-TensorFlow-1.14-CPU'.* "
                                                        "AzureML-TensorFlow-1.13-CPU"):
            self.get("AzureML-TensorFlow-1.14-CPU")

    def test_version_and_label_exclude_each_other(self):
        with self.assertRaisesRegex(UserErrorException, "not both"):
            self.get("AzureML-Minimal", version=1, label="x")


if __name__ == "__main__":
    unittest.main()
