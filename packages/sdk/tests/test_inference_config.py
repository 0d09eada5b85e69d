import os
import tempfile
import unittest
import warnings

from azureml.core import Environment
from azureml.core.image import ContainerImage
from azureml.core.model import InferenceConfig
from azureml.exceptions import UserErrorException, WebserviceException

SCRIPT = "def init():\n    pass\ndef run(data):\n    return data\n"


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        self.folder = os.path.realpath(folder.name)
        self.environment = Environment("e")

    def write(self, name, text=SCRIPT):
        path = os.path.join(self.folder, name)
        if os.path.dirname(name):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def paths(self, config):
        return sorted(entry[0] for entry in config._inference()[0]["files"])


class Checks(InFolder):
    def refused(self, said, kind=WebserviceException, **settings):
        given = dict({"entry_script": "score.py", "environment": self.environment}, **settings)
        with self.assertRaisesRegex(kind, said):
            InferenceConfig(**given)

    def test_scripts_that_cannot_be_are_refused(self):
        self.refused("entry_script .* is not there")
        for name in ("score.txt", "my-score.py", "1.py", "a.b.py"):
            self.write(name)
        self.refused("must be a Python file", entry_script="score.txt")
        for name in ("my-score.py", "1.py", "a.b.py"):
            self.refused("imported as a module", entry_script=name)
        for name in (None, "", 5, "a\0.py"):
            self.refused("entry_script must be the path", entry_script=name)
        self.refused("is not there", entry_script=".")

    def test_a_syntax_error_is_told_with_its_place(self):
        self.write("score.py", "def init():\n    pass\ndef run(data:\n    return 1\n")
        self.refused("entry_script 'score.py' is not valid Python.*line", kind=UserErrorException)
        self.write("score.py", "x = 1\0\n")
        self.refused("not valid Python", kind=UserErrorException)

    def test_a_script_stays_inside_of_its_source_directory(self):
        self.write("outside.py")
        self.write("source/score.py")
        self.refused("is not a folder", source_directory="absent")
        for name in ("../outside.py", os.path.join(self.folder, "outside.py")):
            self.refused("inside source_directory", entry_script=name, source_directory="source")
        os.symlink(os.path.join(self.folder, "outside.py"), os.path.join(self.folder, "source", "linked.py"))
        self.refused("inside source_directory", entry_script="linked.py", source_directory="source")

    def test_an_environment_excludes_the_older_form_and_one_of_both_is_needed(self):
        self.write("score.py")
        for name in ("runtime", "conda_file", "base_image", "cuda_version", "extra_docker_file_steps"):
            self.refused("excludes " + name, **{name: "x"})
        self.refused("environment must be an Environment", environment="e")
        self.refused("needs environment=", environment=None)
        self.refused("needs environment=", environment=None, runtime="cobol")
        for runtime in ("spark-py", "Spark-Py"):
            self.refused("does not serve Spark models. .* has pyspark", environment=None, runtime=runtime)
        self.refused("conda_file names no file", environment=None, runtime="python", conda_file="absent.yml")

    def test_what_concerns_images_is_accepted_and_said_to_have_no_effect(self):
        self.write("score.py")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            InferenceConfig("score.py", runtime="python", base_image="x", cuda_version="9.0", enable_gpu=True)
        self.assertEqual(len(said), 1)
        self.assertIn("base_image, cuda_version, enable_gpu: accepted, and without effect", str(said[0].message))


class Files(InFolder):
    def test_a_script_alone_lies_in_the_root(self):
        self.write("sub/score.py")
        sent = InferenceConfig("sub/score.py", environment=self.environment)._inference()[0]
        self.assertEqual((sent["entry_script"], [entry[0] for entry in sent["files"]]), ("score.py", ["score.py"]))
        self.assertEqual(sent["source_directory"], os.path.join(self.folder, "sub"))

    def test_a_source_directory_is_copied_whole_under_its_name(self):
        for name in ("source/x/y/score.py", "source/data.json", "source/.amlignore", "source/.gitignore"):
            self.write(name, "*\n" if "ignore" in name else SCRIPT)
        os.symlink(os.path.join(self.folder, "source", "x"), os.path.join(self.folder, "source", "z"))
        os.symlink("nowhere", os.path.join(self.folder, "source", "dangling"))
        os.symlink(os.path.join(self.folder, "source"), os.path.join(self.folder, "source", "loop"))
        os.mkfifo(os.path.join(self.folder, "source", "pipe"))
        config = InferenceConfig("./x/y/score.py", source_directory="source", environment=self.environment)
        self.assertEqual(self.paths(config), ["source/.amlignore", "source/.gitignore", "source/data.json",
                                              "source/x/y/score.py", "source/z/y/score.py"])
        self.assertEqual(config._inference()[0]["entry_script"], "source/x/y/score.py")
        self.assertEqual(config.source_directory, os.path.join(self.folder, "source"))

    def test_a_file_name_of_another_encoding_is_named(self):
        self.write("source/score.py")
        with open(os.path.join(os.fsencode(self.folder), b"source", b"\xff.txt"), "w"):
            pass
        config = InferenceConfig("score.py", source_directory="source", environment=self.environment)
        with self.assertRaisesRegex(UserErrorException, "is not UTF-8"):
            config._inference()

    def test_the_environment_is_sent_without_the_password_of_a_registry(self):
        self.write("score.py")
        self.write("requirements.txt", "numpy\n")
        self.environment.docker.base_image_registry.password = "secret"
        self.environment.environment_variables = {"NUMBER": 5}
        self.environment.inferencing_stack_version = "latest"
        self.environment.python.conda_dependencies.add_pip_package("-r requirements.txt")
        sent = InferenceConfig("score.py", environment=self.environment)._inference()[0]["environment"]
        self.assertNotIn("secret", str(sent))
        self.assertEqual((sent["environmentVariables"], sent["inferencingStackVersion"]), ({"NUMBER": "5"}, "latest"))
        self.assertIn("numpy", str(sent["python"]["condaDependencies"]))
        self.assertEqual(self.environment.docker.base_image_registry.password, "secret")

    def test_the_older_form_becomes_an_environment(self):
        self.write("source/score.py")
        self.write("source/env.yml", "name: e\ndependencies:\n- python=3.7\n- numpy\n")
        config = InferenceConfig("score.py", runtime="python", conda_file="env.yml", source_directory="source")
        python = config._inference()[0]["environment"]["python"]
        self.assertEqual(python["condaDependencies"]["dependencies"], ["python=3.7", "numpy"])
        self.assertFalse(python["userManagedDependencies"])
        without = InferenceConfig("score.py", runtime="python", source_directory="source")
        self.assertIn("azureml-defaults", str(without._inference()[0]["environment"]["python"]))


class ImageConfigurations(InFolder):
    def test_dependencies_keep_their_paths(self):
        for name in ("score.py", "data/a.txt", "lib/deep/b.py"):
            self.write(name)
        config = ContainerImage.image_configuration("score.py", "python", dependencies=["data/a.txt", "./lib"])
        self.assertEqual(self.paths(config), ["data/a.txt", "lib/deep/b.py", "score.py"])
        self.assertEqual(config._inference()[0]["entry_script"], "score.py")

    def test_what_cannot_be_is_refused_by_name(self):
        self.write("score.py")
        for settings, said in (({"runtime": "cobol"}, "runtime must be"),
                               ({"runtime": "spark-py"}, "does not serve Spark models"),
                               ({"conda_file": "x"}, "conda_file names"),
                               ({"dependencies": ["absent"]}, "dependencies names"),
                               ({"dependencies": ["/tmp"]}, "relative to the working folder"),
                               ({"dependencies": [".."]}, "outside of the working folder"),
                               ({"execution_script": "absent.py"}, "execution_script")):
            given = dict({"execution_script": "score.py", "runtime": "python"}, **settings)
            with self.assertRaisesRegex(WebserviceException, said):
                ContainerImage.image_configuration(**given)


if __name__ == "__main__":
    unittest.main()
