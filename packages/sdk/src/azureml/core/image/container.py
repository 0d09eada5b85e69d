import os

from azureml.core._inference_config import (
    check_not_spark, environment_to_serve, older_environment, warn_unused_settings)
from azureml.core._inference_config import ScoringFiles, check_script
from azureml.core.container_registry import ContainerRegistry  # noqa: F401
from azureml.core.image.image import Asset, Image, ImageConfig, TargetRuntime  # noqa: F401
from azureml.core.model import (  # noqa: F401
    ARCHITECTURE_AMD64, SUPPORTED_CUDA_VERSIONS, UNDOCUMENTED_RUNTIMES, WEBAPI_IMAGE_FLAVOR)
from azureml.exceptions import WebserviceException

DOCKER_IMAGE_HTTP_PORT = 5001
DOCKER_IMAGE_TYPE = "Docker"
_RUNTIMES = ("python", "python-slim")
_WITHOUT_EFFECT = ("docker_file", "base_image", "base_image_registry", "cuda_version", "enable_gpu")


class ContainerImage(Image):
    """An image of a scoring script."""

    @staticmethod
    def image_configuration(execution_script, runtime, conda_file=None, docker_file=None, schema_file=None,
                            dependencies=None, enable_gpu=None, tags=None, properties=None, description=None,
                            base_image=None, base_image_registry=None, cuda_version=None):
        """Configuration of a script in the working folder, with the files and folders it depends on."""
        return ContainerImageConfig(execution_script, runtime, conda_file, docker_file, schema_file, dependencies,
                                    enable_gpu, tags, properties, description, base_image, base_image_registry,
                                    cuda_version=cuda_version)

    def run(self, input_data):
        raise NotImplementedError("An image does not answer by itself here. Deploy it: "
                                  "Webservice.deploy_from_image(workspace, name, image).")

    def serialize(self):
        written = super(ContainerImage, self).serialize()
        written.update(driverProgram=self.driver_program, targetRuntime=self.target_runtime.serialize(),
                       assets=[asset.serialize() for asset in self.assets])
        return written

    def _take(self, workspace, asset):
        super(ContainerImage, self)._take(workspace, asset)
        inference = self._stored_inference or {}
        self.driver_program = inference.get("entry_script")
        self.assets = [Asset(entry[0], "application/octet-stream", False, "aml://blob/" + entry[1])
                       for entry in inference.get("files") or []]
        self.target_runtime = TargetRuntime({}, "Python", "Amd64")


class ContainerImageConfig(ImageConfig):
    """Script of an image, checked on construction. Container settings have no effect."""

    def __init__(self, execution_script, runtime, conda_file=None, docker_file=None, schema_file=None,
                 dependencies=None, enable_gpu=None, tags=None, properties=None, description=None, base_image=None,
                 base_image_registry=None, allow_absolute_path=False, cuda_version=None):
        self.execution_script = execution_script
        self.execution_script_path = os.path.abspath(execution_script)
        self.runtime = runtime
        self.conda_file = conda_file
        self.docker_file = docker_file
        self.schema_file = schema_file
        self.dependencies = dependencies
        self.enable_gpu = enable_gpu
        self.tags = tags
        self.properties = properties
        self.description = description
        self.base_image = base_image
        self.base_image_registry = base_image_registry
        self.allow_absolute_path = allow_absolute_path
        self.cuda_version = cuda_version
        self.validate_configuration()
        warn_unused_settings(self, _WITHOUT_EFFECT)

    def validate_configuration(self):
        check_script("execution_script", self.execution_script_path)
        check_not_spark(self.runtime)
        if not isinstance(self.runtime, str) or self.runtime.lower() not in _RUNTIMES:
            raise WebserviceException("runtime must be one of %s, got %r." % (", ".join(_RUNTIMES), self.runtime))
        for name in ("conda_file", "docker_file", "schema_file"):
            path = getattr(self, name)
            if path and not os.path.isfile(path):
                raise WebserviceException("%s names no file: %r." % (name, path))
        for path in self.dependencies or []:
            self._check_dependency(path)

    def build_create_payload(self, workspace, name, model_ids):
        return {"models": list(model_ids), "inference": self._to_wire(workspace), "image_type": DOCKER_IMAGE_TYPE,
                "image_flavor": WEBAPI_IMAGE_FLAVOR, "description": self.description, "creation_state": "Succeeded",
                "properties": {str(key): str(value) for key, value in (self.properties or {}).items()}}

    def create_local_debug_payload(self, workspace, model_ids):
        """Request body of a local web service, the same as for a deployment."""
        return self.build_create_payload(workspace, None, model_ids)

    def _to_wire(self, workspace):
        """`inference` of docs/wire.md; uploads the files first."""
        inference, files = self._inference()
        files.send_all(workspace._client)
        return inference

    def _inference(self):
        """The same and the files, which are not uploaded yet. Dependencies keep their paths relative to the working
        folder."""
        files = ScoringFiles()
        script = os.path.basename(self.execution_script_path)
        files.add_file(self.execution_script_path, script)
        for path in (self.dependencies or []) + ([self.schema_file] if self.schema_file else []):
            name = os.path.basename(os.path.abspath(path)) if os.path.isabs(path) else os.path.normpath(path)
            if os.path.isdir(path):
                files.add_folder(os.path.abspath(path), name.replace(os.sep, "/"))
            else:
                files.add_file(path, name.replace(os.sep, "/"))
        environment = environment_to_serve(older_environment(self.conda_file), ".")
        return {"entry_script": script, "files": files.entries, "environment": environment, "source_directory": "",
                "description": self.description}, files

    def _check_dependency(self, path):
        if not os.path.exists(path):
            raise WebserviceException("dependencies names %r, which is not there." % path)
        if os.path.isabs(path) and not self.allow_absolute_path:
            raise WebserviceException("dependencies takes paths relative to the working folder, got %r." % path)
        if os.path.normpath(path).split(os.sep)[0] == os.pardir:
            raise WebserviceException("dependencies names %r, which lies outside of the working folder." % path)


Image._types[WEBAPI_IMAGE_FLAVOR] = ContainerImage
