import os
import tempfile
import unittest

from azureml.core._environment_sections import PythonSection
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.runconfig import CondaDependencies as leaked
from azureml.exceptions import UserErrorException


class CondaFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_the_leaked_name_is_the_same_class(self):
        self.assertIs(leaked, CondaDependencies)

    def test_by_default_there_is_python_and_azureml_defaults(self):
        made = CondaDependencies()
        self.assertEqual(list(made.pip_packages), ["azureml-defaults"])
        self.assertEqual(list(made.conda_packages), ["python=" + made.get_python_version()])

    def test_create_with_pip_packages_drops_azureml_defaults(self):
        self.assertEqual(list(CondaDependencies.create(pip_packages=["numpy"]).pip_packages), ["numpy"])

    def test_create_pins_the_sdk_unless_told_not_to(self):
        pinned = CondaDependencies.create(pip_packages=["azureml-defaults", "azureml-core==1.0"])
        self.assertEqual(list(pinned.pip_packages), ["azureml-defaults==1.61.0.*", "azureml-core==1.0"])
        free = CondaDependencies.create(pip_packages=["azureml-defaults"], pin_sdk_version=False)
        self.assertEqual(list(free.pip_packages), ["azureml-defaults"])

    def test_a_package_of_the_same_name_is_replaced(self):
        made = CondaDependencies.create(pip_packages=["Some_Package==1", "other"], conda_packages=["numpy=1.15"])
        made.add_pip_package("some-package==2")
        made.add_conda_package("numpy")
        self.assertEqual(list(made.pip_packages), ["other", "some-package==2"])
        self.assertIn("numpy", list(made.conda_packages))
        self.assertNotIn("numpy=1.15", list(made.conda_packages))

    def test_two_addresses_do_not_replace_each_other(self):
        made = CondaDependencies.create(pip_packages=["git+https://x/a.git", "git+https://x/b.git"])
        self.assertEqual(len(list(made.pip_packages)), 2)

    def test_options_stand_apart_from_packages(self):
        made = CondaDependencies.create(pip_indexurl="https://one", pip_packages=["numpy"])
        made.set_pip_index_url("https://two")
        made.set_pip_option("--extra-index-url https://three")
        made.set_pip_option("--extra-index-url https://four")
        self.assertEqual(list(made.pip_options), ["--index-url https://two", "--extra-index-url https://three",
                                                  "--extra-index-url https://four"])
        made.remove_pip_option("--extra-index-url")
        self.assertEqual(list(made.pip_options), ["--index-url https://two"])

    def test_saved_and_read_again_it_is_the_same(self):
        made = CondaDependencies.create(pip_packages=["a[b]>=1,<2"], conda_packages=["scikit-learn"])
        made.add_channel("pytorch")
        path = made.save(self.folder)
        self.assertEqual(CondaDependencies(path).as_dict(), made.as_dict())
        self.assertEqual(made.save_to_file(self.folder, "conda.yml"), "conda.yml")
        self.assertTrue(os.path.isfile(os.path.join(self.folder, "conda.yml")))

    def test_only_a_version_that_the_sdk_chose_is_marked(self):
        for add, line in ((CondaDependencies.add_tensorflow_conda_package, "tensorflow=2.2.0"),
                          (CondaDependencies.add_tensorflow_pip_package, "tensorflow==2.2.0")):
            made = CondaDependencies()
            add(made)
            section = PythonSection()
            section.conda_dependencies = CondaDependencies(made.save(self.folder))
            self.assertEqual(section._to_object()["versionsChosenBySdk"], [line])
            again = PythonSection._from_object(section._to_object())
            self.assertEqual(again._to_object(), section._to_object())
            again.conda_dependencies.add_pip_package(line)
            again.conda_dependencies.add_conda_package(line)
            self.assertNotIn("versionsChosenBySdk", again._to_object())
            add(made, version="2.2.0")
            self.assertNotIn("SDK chose", made.serialize_to_string())

    def test_requirements_of_one_package_are_merged(self):
        self.assertEqual(CondaDependencies.merge_requirements(["a==1", "b", "a>=0"]), ["a==1,>=0", "b"])

    def test_a_file_may_hold_anchors_merge_keys_and_block_text(self):
        path = os.path.join(self.folder, "shared.yml")
        with open(path, "w") as file:
            file.write("name: >-\n  my\n  env\nx-pins: &pins\n- numpy=1.19\nx: &x {channels: [conda-forge]}\n<<: *x\n"
                       "dependencies:\n- python=3.8\n- pip: *pins\n")
        made = CondaDependencies(path)
        self.assertEqual(list(made.pip_packages), ["numpy=1.19"])
        self.assertEqual(list(made.conda_channels), ["conda-forge"])

    def test_errors_name_what_is_wrong(self):
        path = os.path.join(self.folder, "broken.yml")
        for text, said in (("- a", "mapping"), ("dependencies: x", "'dependencies' must be a list"),
                           ("dependencies:\n- pip: x", "'pip' must be a list"), ("a: *x", "Line 1")):
            with open(path, "w") as file:
                file.write(text)
            with self.assertRaisesRegex(UserErrorException, said):
                CondaDependencies(path)
        with self.assertRaisesRegex(UserErrorException, "no conda dependencies file"):
            CondaDependencies(os.path.join(self.folder, "absent.yml"))
        with self.assertRaisesRegex(UserErrorException, "pip_packages must be a list"):
            CondaDependencies.create(pip_packages="numpy")


if __name__ == "__main__":
    unittest.main()
