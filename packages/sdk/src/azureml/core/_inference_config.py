import os

from azureml._elements import without_secrets
from azureml._environment_object import environment_object
from azureml.core._scoring_code import check_script, files_of
from azureml.exceptions import UserErrorException, WebserviceException

_RUNTIMES = ("python", "python-slim")
_OLDER_FORM = ("runtime", "conda_file", "extra_docker_file_steps", "enable_gpu", "base_image", "base_image_registry",
               "cuda_version")
_WITHOUT_EFFECT = ("extra_docker_file_steps", "base_image", "base_image_registry", "cuda_version", "enable_gpu")


class InferenceConfig(object):
    """A scoring script and what it needs around it: an environment, or in the older form a runtime and a conda file.

    Everything that can be known is checked when it is made.
    """

    def __init__(self, entry_script, runtime=None, conda_file=None, extra_docker_file_steps=None,
                 source_directory=None, enable_gpu=None, description=None, base_image=None, base_image_registry=None,
                 cuda_version=None, environment=None):
        self.entry_script = entry_script
        self.runtime = runtime
        self.conda_file = conda_file
        self.extra_docker_file_steps = extra_docker_file_steps
        self.source_directory = os.path.abspath(source_directory) if source_directory else source_directory
        self.enable_gpu = enable_gpu
        self.description = description
        self.base_image = base_image
        self.base_image_registry = base_image_registry
        self.cuda_version = cuda_version
        self.environment = environment
        self.validate_configuration()
        say_what_has_no_effect(self, _WITHOUT_EFFECT)

    def validate_configuration(self):
        """WebserviceException for what cannot be, UserErrorException for a script that is no Python."""
        if not isinstance(self.entry_script, str) or not self.entry_script or "\x00" in self.entry_script:
            raise WebserviceException("entry_script must be the path of the scoring script, got %r." % (
                self.entry_script,))
        self._check_folder()
        check_script("entry_script", self._script_path)
        self.validation_script_content()
        self._check_environment()

    def validation_script_content(self):
        """UserErrorException, with the place, for a scoring script that is no Python."""
        import ast
        try:
            with open(self._script_path, "rb") as file:
                ast.parse(file.read(), self.entry_script)
        except (SyntaxError, ValueError) as error:
            raise UserErrorException("entry_script %r is not valid Python: %s." % (self.entry_script, error))

    def build_create_payload(self, workspace, name, model_ids):
        """What a deployment of these models sends; the files are with the service then."""
        return {"name": name, "models": list(model_ids), "inference": self._to_wire(workspace)}

    def build_profile_payload(self, profile_name, input_data=None, workspace=None, models=None, dataset_id=None,
                              container_resource_requirements=None, description=None):
        """What Model.profile sends, without the rows."""
        from azureml.core._model_references import model_ids, models_of
        needed = container_resource_requirements
        return {"name": profile_name, "description": description, "dataset_id": dataset_id,
                "models": model_ids(models_of(workspace, models)), "cpu": getattr(needed, "cpu", None),
                "memory_in_gb": getattr(needed, "memory_in_gb", None), "rows": [input_data] if input_data else None,
                "inference": self._to_wire(workspace) if workspace is not None else None}

    def __repr__(self):
        return "InferenceConfig(entry_script=%s, runtime=%s, conda_file=%s, source_directory=%s, environment=%s)" % (
            self.entry_script, self.runtime, self.conda_file, self.source_directory,
            getattr(self.environment, "name", None))

    def _to_wire(self, workspace):
        """docs/wire.md's `inference`; the service holds the files when this returns."""
        inference, files = self._inference()
        files.send_all(workspace._client)
        return inference

    def _inference(self):
        """The same, and the files, which are not sent yet."""
        script = os.path.normpath(self.entry_script).replace(os.sep, "/")
        if self.source_directory:
            folder, entry = self.source_directory, os.path.basename(self.source_directory) + "/" + script
        else:
            folder, entry = os.path.dirname(self._script_path), os.path.basename(script)
        files = files_of(folder, entry)
        environment = environment_to_serve(self._served_environment(), self.source_directory or ".")
        return {"entry_script": entry, "files": files.entries, "source_directory": folder,
                "environment": environment, "description": self.description}, files

    @property
    def _script_path(self):
        return os.path.join(self.source_directory or os.getcwd(), self.entry_script)

    def _check_folder(self):
        if not self.source_directory:
            return
        if not os.path.isdir(self.source_directory) or not os.path.basename(self.source_directory):
            raise WebserviceException("source_directory %r is not a folder that can be copied." % self.source_directory)
        inside = os.path.join(os.path.realpath(self.source_directory), "")
        if os.path.isabs(self.entry_script) or not os.path.realpath(self._script_path).startswith(inside):
            raise WebserviceException("entry_script %r must be a path inside source_directory %r: only that folder is "
                                      "copied." % (self.entry_script, self.source_directory))

    def _check_environment(self):
        from azureml.core.environment import Environment
        given = [name for name in _OLDER_FORM if getattr(self, name) is not None]
        if self.environment is None:
            self._check_runtime()
        elif not isinstance(self.environment, Environment):
            raise WebserviceException("environment must be an Environment, got %r." % (self.environment,))
        elif given:
            raise WebserviceException("environment says all of it, so it excludes %s." % ", ".join(given))

    def _check_runtime(self):
        check_that_it_is_no_spark(self.runtime)
        if not isinstance(self.runtime, str) or self.runtime.lower() not in _RUNTIMES:
            raise WebserviceException(
                "An InferenceConfig needs environment=Environment(...), or runtime='python' with a conda_file; runtime "
                "is %r." % (self.runtime,))
        if self.conda_file and not os.path.isfile(self._beside(self.conda_file)):
            raise WebserviceException("conda_file names no file: %r." % self.conda_file)

    def _beside(self, path):
        """Files of the older form are relative to source_directory, or else to the working folder."""
        inside = os.path.join(self.source_directory or "", path)
        return inside if os.path.isfile(inside) else path

    def _served_environment(self):
        return self.environment or older_environment(self.conda_file and self._beside(self.conda_file))


def check_that_it_is_no_spark(runtime):
    """WebserviceException with the way out for the runtime of Spark models."""
    if isinstance(runtime, str) and runtime.lower() == "spark-py":
        raise WebserviceException(
            "runtime 'spark-py': Runyard does not serve Spark models. Use an InferenceConfig with environment="
            "Environment(...) that has pyspark, on a machine with Java, and make the SparkSession in the scoring "
            "script's init().")


def say_what_has_no_effect(config, names):
    """Warn of those settings of containers that were given: they are accepted, and that is all."""
    given = [name for name in names if getattr(config, name)]
    if given:
        import warnings
        warnings.warn("%s: accepted, and without effect here. A web service is a process of this machine, not an "
                      "image." % ", ".join(given), stacklevel=4)


def environment_to_serve(environment, folder):
    """Its v1 object without secrets: a web service pulls no image, so nobody needs the registry's password."""
    return without_secrets(environment_object(environment, folder))


def older_environment(conda_file):
    """The environment of the form with a runtime and, perhaps, a conda file."""
    from azureml.core.conda_dependencies import CondaDependencies
    from azureml.core.environment import Environment
    made = Environment("inference")
    made.environment_variables = {}
    made.python.conda_dependencies = CondaDependencies(conda_file) if conda_file else CondaDependencies.create(
        pip_packages=["azureml-defaults"])
    return made
