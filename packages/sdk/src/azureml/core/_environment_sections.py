"""The parts of an Environment: Python, Docker, Spark and R."""

import os

from azureml._elements import Element
from azureml._service import translated
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.container_registry import ContainerRegistry
from azureml.exceptions import UserErrorException
from runyard_sdk.errors import RunyardError

DEFAULT_CPU_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04:20251130.v1"
DEFAULT_GPU_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-cuda11.8-cudnn8-ubuntu22.04"


class DockerBuildContext(Element):
    """A Dockerfile and the files it may copy: a folder sent to the service, or a git URL."""

    _fields = dict.fromkeys(("location_type", "location", "dockerfile_path", "_files"))

    class LocationType(object):
        Git = "git"
        StorageAccount = "storageaccount"

    def __init__(self, location_type=None, location=None, dockerfile_path="Dockerfile"):
        self.location_type = location_type
        self.location = location
        self.dockerfile_path = dockerfile_path
        self._files = []

    @staticmethod
    def from_local_directory(workspace, path, dockerfile_path="Dockerfile"):
        """Send the folder as it is now, except what .dockerignore excludes and links that lead out of it. Later changes
        have no effect."""
        dockerfile = _checked(path, dockerfile_path)
        made = DockerBuildContext(DockerBuildContext.LocationType.StorageAccount, os.path.abspath(path), dockerfile)
        made._files = _sent(workspace._client, os.path.abspath(path), dockerfile)
        return made


def _checked(path, dockerfile_path):
    """Path of the Dockerfile in the folder, with forward slashes."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isdir(path):
        raise UserErrorException("path must be the folder to build the image from, got %r." % (path,))
    if not isinstance(dockerfile_path, str) or not dockerfile_path:
        raise UserErrorException("dockerfile_path must be a path inside of %r, got %r." % (str(path), dockerfile_path))
    inside = os.path.normpath(dockerfile_path)
    if os.path.isabs(inside) or inside.split(os.sep)[0] == os.pardir or "\x00" in inside:
        raise UserErrorException("dockerfile_path %r lies outside of %r; only that folder is sent." % (
            dockerfile_path, str(path)))
    if not os.path.isfile(os.path.join(path, inside)):
        raise UserErrorException("There is no %r in %r; dockerfile_path names the Dockerfile inside of the folder." % (
            dockerfile_path, str(path)))
    return inside.replace(os.sep, "/")


def _sent(client, folder, dockerfile):
    """Upload the folder's files; return their entries."""
    from runyard_sdk.blobs import send_missing
    from runyard_sdk.ignore import context_rules
    from runyard_sdk.snapshot import take, take_file
    try:
        entries = take(folder, rules_of=context_rules)
    except RunyardError as error:
        raise translated(error)
    if dockerfile not in [entry[0] for entry in entries]:
        # Docker, too, reads the Dockerfile even if .dockerignore excludes it.
        entries += [[dockerfile] + take_file(os.path.join(folder, dockerfile))[0][1:]]
    missing = client.post_again("/blobs/missing", {"sha256": sorted({entry[1] for entry in entries})})["missing"]
    return send_missing(client, entries, lambda path: os.path.join(folder, path), missing)


class PythonSection(Element):
    """Interpreter and packages of a run. With user_managed_dependencies the interpreter is used as it is."""

    _fields = dict.fromkeys(
        ("user_managed_dependencies", "interpreter_path", "_conda_dependencies_file", "_base_conda_environment"))

    def __init__(self, **kwargs):
        skip_defaults = kwargs.pop("_skip_defaults", False)
        _refuse_unknown("PythonSection", kwargs)
        self.interpreter_path = None if skip_defaults else "python"
        self.user_managed_dependencies = None if skip_defaults else False
        self.conda_dependencies = None if skip_defaults else CondaDependencies()
        self._conda_dependencies_file = None
        self._base_conda_environment = None

    @property
    def conda_dependencies_file(self):
        return self._conda_dependencies_file

    @conda_dependencies_file.setter
    def conda_dependencies_file(self, path):
        self._conda_dependencies_file = path
        if path:
            self.conda_dependencies = CondaDependencies(conda_dependencies_file_path=path)

    def _to_object(self):
        written = super(PythonSection, self)._to_object()
        conda = self.conda_dependencies
        written["condaDependencies"] = conda.as_dict() if conda is not None else None
        if conda is not None and conda._sdk_choices():
            written["versionsChosenBySdk"] = conda._sdk_choices()
        return written

    @classmethod
    def _from_object(cls, given):
        made = super(PythonSection, cls)._from_object(given)
        conda = (given or {}).get("condaDependencies")
        if conda:
            made.conda_dependencies = CondaDependencies(_underlying_structure=conda)
            made.conda_dependencies._chosen_by_sdk = set(map(str, given.get("versionsChosenBySdk") or ()))
        return made


class PythonEnvironment(PythonSection):
    def __init__(self):
        super(PythonEnvironment, self).__init__()


class DockerImagePlatform(Element):
    _fields = {"os": None, "architecture": None}

    def __init__(self):
        self.os = "Linux"
        self.architecture = "amd64"


class DockerSection(Element):
    """Image of a run. base_image, base_dockerfile and build_context exclude one another: the last one set wins."""

    _fields = {"_enabled": None, "_base_image": None, "_base_dockerfile": None, "_build_context": DockerBuildContext,
               "_shared_volumes": None, "_shm_size": None, "_arguments": None, "platform": DockerImagePlatform,
               "base_image_registry": ContainerRegistry}

    def __init__(self, **kwargs):
        skip_defaults = kwargs.pop("_skip_defaults", False)
        _refuse_unknown("DockerSection", kwargs)
        self._enabled = None if skip_defaults else False
        self._shm_size = None
        self._shared_volumes = None if skip_defaults else True
        self._arguments = []
        self._base_image = None if skip_defaults else DEFAULT_CPU_IMAGE
        self._base_dockerfile = None
        self._build_context = None
        self.platform = DockerImagePlatform()
        self.base_image_registry = ContainerRegistry()

    @property
    def enabled(self):
        return self._enabled

    @enabled.setter
    def enabled(self, enabled):
        self._enabled = enabled

    @property
    def shm_size(self):
        return self._shm_size

    @shm_size.setter
    def shm_size(self, shm_size):
        self._shm_size = shm_size

    @property
    def shared_volumes(self):
        return self._shared_volumes

    @shared_volumes.setter
    def shared_volumes(self, shared_volumes):
        self._shared_volumes = shared_volumes

    @property
    def arguments(self):
        return self._arguments

    @arguments.setter
    def arguments(self, arguments):
        self._arguments = arguments

    @property
    def base_image(self):
        return self._base_image

    @base_image.setter
    def base_image(self, image):
        self._set_source(base_image=image)

    @property
    def base_dockerfile(self):
        return self._base_dockerfile

    @base_dockerfile.setter
    def base_dockerfile(self, dockerfile):
        """Path of a Dockerfile, or its text."""
        self._set_source(base_dockerfile=_dockerfile_text(dockerfile) if dockerfile else dockerfile)

    @property
    def build_context(self):
        return self._build_context

    @build_context.setter
    def build_context(self, build_context):
        self._set_source(build_context=build_context)

    @property
    def gpu_support(self):
        """Accepted for old scripts: GPUs are detected."""
        return True

    @gpu_support.setter
    def gpu_support(self, gpu_support):
        pass

    @classmethod
    def _from_object(cls, given):
        made = super(DockerSection, cls)._from_object(given)
        has_none = any(str(key).lower() == "baseimage" and value is None for key, value in (given or {}).items())
        if has_none or made._base_dockerfile or made._build_context:
            made._base_image = None
        return made

    def _set_source(self, base_image=None, base_dockerfile=None, build_context=None):
        self._base_image = base_image
        self._base_dockerfile = base_dockerfile
        self._build_context = build_context


class DockerEnvironment(DockerSection):
    def __init__(self):
        super(DockerEnvironment, self).__init__()


class SparkPackage(Element):
    _fields = {"group": None, "artifact": None, "version": None}

    def __init__(self, group=None, artifact=None, version=None):
        self.group = group
        self.artifact = artifact
        self.version = version


class SparkSection(Element):
    _fields = {"repositories": None, "packages": [SparkPackage], "precache_packages": None}

    def __init__(self, **kwargs):
        kwargs.pop("_skip_defaults", False)
        _refuse_unknown("SparkSection", kwargs)
        self.repositories = []
        self.packages = []
        self.precache_packages = True


class SparkEnvironment(SparkSection):
    def __init__(self):
        super(SparkEnvironment, self).__init__()


class RCranPackage(Element):
    _fields = {"name": None, "version": None, "repository": None}

    def __init__(self):
        self.name = None
        self.version = None
        self.repository = None


class RGitHubPackage(Element):
    _fields = {"repository": None, "auth_token": None}

    def __init__(self):
        self.repository = None
        self.auth_token = None


class RSection(Element):
    _fields = {"r_version": None, "user_managed": None, "rscript_path": None, "snapshot_date": None,
               "cran_packages": [RCranPackage], "github_packages": [RGitHubPackage], "custom_url_packages": None,
               "bioconductor_packages": None}

    def __init__(self):
        self.r_version = None
        self.user_managed = False
        self.rscript_path = None
        self.snapshot_date = None
        self.cran_packages = []
        self.github_packages = []
        self.custom_url_packages = []
        self.bioconductor_packages = []


def _dockerfile_text(path_or_text):
    """Content of the Dockerfile if it is a path. Raises UserErrorException for a single line that is neither a file nor
    a Dockerfile."""
    text = str(path_or_text)
    if "\n" in text or text.lstrip().upper().startswith(("FROM ", "ARG ", "#")):
        return text
    if "\x00" in text or not os.path.isfile(text):
        raise UserErrorException("base_dockerfile must be the path of a Dockerfile or its text, which begins with "
                                 "FROM; there is no file %r." % text)
    with open(text, encoding="utf-8") as file:
        return file.read()


def _refuse_unknown(name, kwargs):
    if kwargs:
        raise UserErrorException("%s takes no %s." % (name, ", ".join(sorted(kwargs))))
