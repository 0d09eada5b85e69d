import os
import tempfile
import unittest

from azureml.core.environment import environment_object
from azureml.core import Environment, RunConfiguration
from azureml.core._inference_config import environment_to_serve
from azureml.core.runconfig import DataReferenceConfiguration, MpiConfiguration
from azureml.exceptions import RunConfigurationException, UserErrorException


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path


class Environments(InAFolder):
    def test_a_default_environment_carries_the_example_variable(self):
        self.assertEqual(Environment("e").environment_variables, {"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE"})

    def test_requirements_files_name_other_files_and_comments(self):
        self.write("more/base.txt", "numpy\n")
        path = self.write("requirements.txt", "# c\n-r more/base.txt\nscipy==1.2  # why\n--no-binary \\\n  x\n")
        made = Environment.from_pip_requirements("e", path).python.conda_dependencies
        self.assertEqual(list(made.pip_packages), ["azureml-defaults", "numpy", "scipy==1.2"])
        self.assertEqual([option.split() for option in made.pip_options], [["--no-binary", "x"]])

    def test_a_requirements_file_that_names_itself_is_refused(self):
        path = self.write("requirements.txt", "-r requirements.txt\n")
        with self.assertRaisesRegex(UserErrorException, "names itself"):
            Environment.from_pip_requirements("e", path)

    def test_the_image_sources_exclude_one_another(self):
        docker = Environment("e").docker
        docker.base_dockerfile = "FROM debian"
        self.assertIsNone(docker.base_image)
        docker.base_image = "debian"
        self.assertIsNone(docker.base_dockerfile)

    def test_a_saved_environment_is_loaded_with_the_edits_of_its_conda_file(self):
        made = Environment("e")
        made.docker.base_dockerfile = "FROM debian\nRUN true"
        made.environment_variables = {"A": "1"}
        target = os.path.join(self.folder, "saved")
        made.save_to_directory(target)
        with open(os.path.join(target, "conda_dependencies.yml"), "a") as file:
            file.write("prefix: there\n")
        loaded = Environment.load_from_directory(target)
        self.assertEqual(loaded.python.conda_dependencies.as_dict()["prefix"], "there")
        self.assertEqual((loaded.docker.base_dockerfile, loaded.environment_variables, loaded.name),
                         ("FROM debian\nRUN true", {"A": "1"}, "e"))

    def test_an_environment_saved_over_another_leaves_nothing_of_it(self):
        target = os.path.join(self.folder, "saved")
        first = Environment("e")
        first.docker.base_dockerfile = "FROM debian"
        first.save_to_directory(target)
        with self.assertRaises(FileExistsError):
            Environment("f").save_to_directory(target)
        Environment("f").save_to_directory(target, overwrite=True)
        loaded = Environment.load_from_directory(target)
        self.assertEqual((loaded.name, loaded.docker.base_dockerfile), ("f", None))

    def test_what_is_no_definition_is_told(self):
        with self.assertRaisesRegex(UserErrorException, "no azureml_environment.json"):
            Environment.load_from_directory(self.folder)
        for text in ("[]", "{"):
            self.write("azureml_environment.json", text)
            with self.assertRaisesRegex(UserErrorException, "is no environment's definition"):
                Environment.load_from_directory(self.folder)

    def test_a_clone_shares_nothing(self):
        first = Environment("first")
        second = first.clone("second")
        second.python.conda_dependencies.add_pip_package("numpy")
        self.assertEqual((second.name, first.name), ("second", "first"))
        self.assertNotIn("numpy", list(first.python.conda_dependencies.pip_packages))


class Dockerfiles(InAFolder):
    def test_one_is_given_as_a_path_or_as_its_text(self):
        path = self.write("Dockerfile", "FROM debian\nRUN true\n")
        for given, text in ((path, "FROM debian\nRUN true\n"), ("FROM debian", "FROM debian"),
                            ("# c\nFROM debian", "# c\nFROM debian")):
            made = Environment.from_dockerfile("e", given)
            self.assertEqual((made.docker.base_dockerfile, made.docker.base_image), (text, None))
            self.assertTrue(made.python.user_managed_dependencies)

    def test_a_copy_has_no_other_image_than_its_dockerfile(self):
        made = Environment.from_dockerfile("e", "FROM debian").clone("f")
        self.assertEqual((made.docker.base_dockerfile, made.docker.base_image), ("FROM debian", None))
        made.docker.base_dockerfile = None
        self.assertIsNone(made.clone("g").docker.base_image)
        self.assertIsNotNone(Environment("e").clone("f").docker.base_image)

    def test_a_path_that_is_not_there_is_no_dockerfile(self):
        for given in ("Dockerfile.absent", "a\x00b"):
            with self.assertRaisesRegex(UserErrorException, "base_dockerfile must be the path"):
                Environment("e").docker.base_dockerfile = given

    def test_the_packages_of_an_image_come_from_one_file(self):
        conda = self.write("env.yml", "dependencies:\n- python=3.8\n")
        pip = self.write("requirements.txt", "numpy\n")
        made = Environment.from_docker_image("e", "debian", conda_specification=conda)
        self.assertFalse(made.python.user_managed_dependencies)
        self.assertEqual(made.python.conda_dependencies.get_python_version(), "3.8")
        with self.assertRaisesRegex(UserErrorException, "not both"):
            Environment.from_docker_image("e", "debian", conda_specification=conda, pip_requirements=pip)


class RegistryPasswords(InAFolder):
    def setUp(self):
        super(RegistryPasswords, self).setUp()
        self.environment = Environment("e")
        registry = self.environment.docker.base_image_registry
        registry.address, registry.username, registry.password = "registry.example", "me", "s3cret"

    def test_one_is_not_shown(self):
        for shown in (self.environment, self.environment.docker, self.environment.docker.base_image_registry):
            self.assertNotIn("s3cret", repr(shown))
            self.assertIn("****", repr(shown))

    def test_one_is_written_to_no_file(self):
        self.environment.save_to_directory(os.path.join(self.folder, "saved"))
        config = RunConfiguration()
        config.environment = self.environment
        config.save(self.folder, "one")
        config.save(self.folder, "two", separate_environment_yaml=True)
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with open(os.path.join(folder, name)) as file:
                    self.assertNotIn("s3cret", file.read(), name)

    def test_one_stays_with_a_clone_and_goes_to_the_service(self):
        cloned = self.environment.clone("other")
        sent = environment_object(cloned, ".")
        self.assertEqual(sent["docker"]["baseImageRegistry"]["password"], "s3cret")

    def test_a_web_service_is_sent_none(self):
        sent = environment_to_serve(self.environment, ".")
        self.assertIsNone(sent["docker"]["baseImageRegistry"]["password"])


class RunConfigurations(InAFolder):
    def test_a_saved_configuration_is_loaded_again(self):
        made = RunConfiguration(script="train.py", arguments=["--a", "1"])
        made.target = "cluster"
        made.mpi = MpiConfiguration(process_count_per_node=2)
        made.environment.python.conda_dependencies.add_pip_package("numpy")
        made.data_references["d"] = DataReferenceConfiguration("store", "download", "p")
        made.save(self.folder, "mine")
        self.assertTrue(os.path.isfile(os.path.join(self.folder, ".azureml", "mine.runconfig")))
        loaded = RunConfiguration.load(self.folder, "mine")
        self.assertEqual(loaded._to_object(), made._to_object())
        self.assertEqual(loaded.data_references["d"].mode, "download")

    def test_the_environment_may_lie_in_its_own_file(self):
        made = RunConfiguration()
        made.environment.python.user_managed_dependencies = True
        made.save(self.folder, "mine", separate_environment_yaml=True)
        self.assertTrue(RunConfiguration.load(self.folder, "mine").environment.python.user_managed_dependencies)

    def test_the_old_folder_is_used_where_it_is(self):
        os.makedirs(os.path.join(self.folder, "aml_config"))
        RunConfiguration().save(self.folder, "mine")
        self.assertTrue(os.path.isfile(os.path.join(self.folder, "aml_config", "mine.runconfig")))

    def test_a_section_that_is_none_is_named(self):
        for section, text in (("environment", "environment: 5"), ("environment.python", "environment: {python: 5}"),
                              ("data", "data: 5"), ("outputData", "outputData: [1]"), ("mpi", "mpi: 3"),
                              ("datacaches", "datacaches: {a: 1}")):
            with self.assertRaisesRegex(RunConfigurationException, section + " of the run configuration .* must be a"):
                RunConfiguration.load(self.write("x.runconfig", text))

    def test_a_broken_or_absent_file_is_told_apart(self):
        with self.assertRaisesRegex(RunConfigurationException, "cannot be read"):
            RunConfiguration.load(self.write("x.runconfig", "a: *b"))
        with self.assertRaisesRegex(UserErrorException, "There is no absent.runconfig"):
            RunConfiguration.load(self.folder, "absent")

    def test_a_target_is_a_name_or_a_compute(self):
        with self.assertRaisesRegex(UserErrorException, "target must be"):
            RunConfiguration().target = 5


if __name__ == "__main__":
    unittest.main()
