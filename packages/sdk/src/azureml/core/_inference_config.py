import os

from azureml._elements import without_secrets
from azureml._service import translated
from azureml.core.environment import Environment, environment_object
from azureml.exceptions import UserErrorException, WebserviceException
from runyard_sdk import snapshot
from runyard_sdk.blobs import hashed, send_missing
from runyard_sdk.errors import BlobsMissing, NotFound, RunyardError
from runyard_sdk.ignore import no_rules

_RUNTIMES = ("python", "python-slim")
_OLDER_FORM = ("runtime", "conda_file", "extra_docker_file_steps", "enable_gpu", "base_image", "base_image_registry",
               "cuda_version")
_WITHOUT_EFFECT = ("extra_docker_file_steps", "base_image", "base_image_registry", "cuda_version", "enable_gpu")
_SENDING_ATTEMPTS = 3


class InferenceConfig(object):
    """A scoring script and its environment, or in the older form a runtime and a conda file.

    Arguments are checked on construction.
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
        warn_unused_settings(self, _WITHOUT_EFFECT)

    def validate_configuration(self):
        """Raises WebserviceException for invalid settings, UserErrorException for a script that is not valid Python."""
        if not isinstance(self.entry_script, str) or not self.entry_script or "\x00" in self.entry_script:
            raise WebserviceException("entry_script must be the path of the scoring script, got %r." % (
                self.entry_script,))
        self._check_folder()
        check_script("entry_script", self._script_path)
        self.validation_script_content()
        self._check_environment()

    def validation_script_content(self):
        """Raises UserErrorException, with the line, for a scoring script that is not valid Python."""
        import ast
        try:
            with open(self._script_path, "rb") as file:
                ast.parse(file.read(), self.entry_script)
        except (SyntaxError, ValueError) as error:
            raise UserErrorException("entry_script %r is not valid Python: %s." % (self.entry_script, error))

    def build_create_payload(self, workspace, name, model_ids):
        """Request body for deploying these models; uploads the files first."""
        return {"name": name, "models": list(model_ids), "inference": self._to_wire(workspace)}

    def build_profile_payload(self, profile_name, input_data=None, workspace=None, models=None, dataset_id=None,
                              container_resource_requirements=None, description=None):
        """Request body of Model.profile, without the rows."""
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
        """`inference` of docs/wire.md; uploads the files first."""
        inference, files = self._inference()
        files.send_all(workspace._client)
        return inference

    def _inference(self):
        """Return (inference, files); the files are not uploaded yet."""
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
        given = [name for name in _OLDER_FORM if getattr(self, name) is not None]
        if self.environment is None:
            self._check_runtime()
        elif not isinstance(self.environment, Environment):
            raise WebserviceException("environment must be an Environment, got %r." % (self.environment,))
        elif given:
            raise WebserviceException("environment says all of it, so it excludes %s." % ", ".join(given))

    def _check_runtime(self):
        check_not_spark(self.runtime)
        if not isinstance(self.runtime, str) or self.runtime.lower() not in _RUNTIMES:
            raise WebserviceException(
                "An InferenceConfig needs environment=Environment(...), or runtime='python' with a conda_file; runtime "
                "is %r." % (self.runtime,))
        if self.conda_file and not os.path.isfile(self._beside(self.conda_file)):
            raise WebserviceException("conda_file names no file: %r." % self.conda_file)

    def _beside(self, path):
        """Path of a file of the older form: relative to source_directory, or else to the working folder."""
        inside = os.path.join(self.source_directory or "", path)
        return inside if os.path.isfile(inside) else path

    def _served_environment(self):
        return self.environment or older_environment(self.conda_file and self._beside(self.conda_file))


def check_not_spark(runtime):
    """Raises WebserviceException, with an alternative, for the runtime of Spark models."""
    if isinstance(runtime, str) and runtime.lower() == "spark-py":
        raise WebserviceException(
            "runtime 'spark-py': Runyard does not serve Spark models. Use an InferenceConfig with environment="
            "Environment(...) that has pyspark, on a machine with Java, and make the SparkSession in the scoring "
            "script's init().")


def warn_unused_settings(config, names):
    """Warn of container settings that were given: they have no effect."""
    given = [name for name in names if getattr(config, name)]
    if given:
        import warnings
        warnings.warn("%s: accepted, and without effect here. A web service is a process of this machine, not an "
                      "image." % ", ".join(given), stacklevel=4)


def environment_to_serve(environment, folder):
    """v1 object of the environment without secrets: a web service pulls no image, so it needs no registry password."""
    return without_secrets(environment_object(environment, folder))


def older_environment(conda_file):
    """Environment of the older form: a runtime and an optional conda file."""
    from azureml.core.conda_dependencies import CondaDependencies
    made = Environment("inference")
    made.environment_variables = {}
    made.python.conda_dependencies = CondaDependencies(conda_file) if conda_file else CondaDependencies.create(
        pip_packages=["azureml-defaults"])
    return made


class ScoringFiles(object):
    """Files of a deployment, and where their contents are on this machine."""

    def __init__(self):
        self.entries, self._path_by_name = [], {}

    def add_folder(self, folder, root):
        """Add the whole folder below `root`, without regard to ignore files, following links."""
        try:
            taken = snapshot.take(folder, rules_of=no_rules)
        except RunyardError as error:
            raise translated(error)
        for path, sha256, size, mode in taken:
            self._add(root + "/" + path, sha256, size, mode, os.path.join(folder, path))

    def add_file(self, path, name):
        sha256, size = hashed(path)
        self._add(name, sha256, size, os.stat(path).st_mode & 0o777, path)

    def send(self, client, sha256s):
        """Upload these contents. `entries` describes what was sent: files may have changed since they were added."""
        self.entries[:] = send_missing(client, self.entries, self._path_by_name.__getitem__, sha256s)

    def send_all(self, client):
        self.send(client, {entry[1] for entry in self.entries})

    def _add(self, name, sha256, size, mode, path):
        self.entries.append([name, sha256, size, mode])
        self._path_by_name[name] = path


class SourceOnDisk(object):
    """Script of a web service deployed from this machine, with its files as they are now."""

    def __init__(self, inference):
        self._before = inference

    @property
    def has_changed(self):
        return sorted(self._files().entries) != sorted(list(entry) for entry in self._before["files"])

    def validate_configuration(self):
        """Check nothing: it was valid when deployed, and errors show when it starts."""

    def _inference(self):
        files = self._files()
        return dict(self._before, files=files.entries), files

    def _files(self):
        return files_of(self._before["source_directory"], self._before["entry_script"])


def files_of(source_directory, entry_script):
    """Files of the source_directory, whose name is the first part of entry_script; or of the script alone."""
    files = ScoringFiles()
    if "/" in entry_script:
        files.add_folder(source_directory, entry_script.split("/")[0])
    else:
        files.add_file(os.path.join(source_directory, entry_script), entry_script)
    return files


def code_on_disk(inference):
    """SourceOnDisk, or None if the script is not on this machine."""
    folder = (inference or {}).get("source_directory")
    if not folder:
        return None
    whole = inference["entry_script"]
    inside = whole.split("/", 1)[1] if "/" in whole else whole
    return SourceOnDisk(inference) if os.path.isfile(os.path.join(folder, inside)) else None


def check_code(code):
    """Raises WebserviceException for anything but a scoring script, and what its own validation raises."""
    if not hasattr(code, "_inference"):
        raise WebserviceException("inference_config must be an InferenceConfig, got %r." % (code,))
    code.validate_configuration()


def send_with_code(client, code, body, send):
    """Call `send` with the body and the code's `inference`; upload the contents that the service lacks and call again.
    """
    if code is None:
        return send(body)
    inference, files = code._inference()
    for attempt in range(_SENDING_ATTEMPTS):
        try:
            return send(dict(body, inference=inference))
        except BlobsMissing as error:
            if attempt == _SENDING_ATTEMPTS - 1:
                raise
            missing = error.facts["sha256"]
        try:
            files.send(client, missing)
        except (FileNotFoundError, NotFound):
            inference, files = code._inference()  # a file was removed: use the files that exist now


def check_script(argument, path):
    """Raises WebserviceException for a scoring script that does not exist or is not a module."""
    if not os.path.isfile(path):
        raise WebserviceException("%s %r is not there: no such file." % (argument, path))
    name, extension = os.path.splitext(os.path.basename(path))
    if extension != ".py":
        raise WebserviceException("%s must be a Python file (.py), got %r." % (argument, path))
    if not name.isidentifier():
        raise WebserviceException("%s %r is imported as a module, so its name must be letters, digits and '_' and not "
                                  "begin with a digit. Rename it." % (argument, os.path.basename(path)))
