import os

from azureml._requirements import package_name, with_package
from azureml._version import VERSION
from azureml._yaml import MAX_CHARACTERS, YamlError, dumps, loads
from azureml.exceptions import UserErrorException

BASE_PROJECT_MODULE = "azureml._project"
BASE_PROJECT_FILE_RELATIVE_PATH = "base_project_files/conda_dependencies.yml"
CONDA_FILE_NAME = "auto_conda_dependencies.yml"
CHANNELS = "channels"
PACKAGES = "dependencies"
PIP = "pip"
PYTHON_PREFIX = "python"
PYTHON_DEFAULT_VERSION = "3.10.18"
CPU = "cpu"
GPU = "gpu"
LINUX_PLATFORM = "linux"
WINDOWS_PLATFORM = "win32"
TENSORFLOW_DEFAULT_VERSION = "2.2.0"
TENSORFLOW_PACKAGE_PREFIX = "tensorflow"
PYTORCH_DEFAULT_VERSION = "1.6.0"
PYTORCH_PACKAGE_PREFIX = "torch"
TORCHVISION_DEFAULT_VERSION = "0.7.0"
TORCHVISION_PACKAGE_PREFIX = "torchvision"
HOROVOD_DEFAULT_VERSION = "0.19.5"
DEFAULT_CHAINER_VERSION = "7.7.0"
CHAINER_PACKAGE_PREFIX = "chainer"
CUPY_DEFAULT_VERSION = "cupy-cuda102"
CNTK_DEFAULT_VERSION = "2.7"
CNTK_PACKAGE_PREFIX = "cntk"
DEFAULT_SDK_ORIGIN = ""

_DEFAULT_FILE = "conda_dependencies.yml"
_HEADER = "# Conda environment of a Runyard run: channels, conda packages, and pip packages at the end.\n"

_CHOICES = "# Versions that the SDK chose: "


class CondaDependencies(object):
    """A conda environment file. Adding a package replaces the one of the same name."""

    DEFAULT_NUMBER_OF_CONDA_PACKAGES = 0
    DEFAULT_NUMBER_OF_PIP_PACKAGES = 0

    def __init__(self, conda_dependencies_file_path=None, _underlying_structure=None):
        if conda_dependencies_file_path and _underlying_structure:
            raise UserErrorException("Give conda_dependencies_file_path or _underlying_structure, not both.")
        self._chosen_by_sdk = set()  # packages whose version only the SDK has set
        if conda_dependencies_file_path:
            given, self._chosen_by_sdk = _read(conda_dependencies_file_path)
        elif _underlying_structure is not None:
            given = _underlying_structure
        else:
            given = _default_structure()
        self._conda_dependencies = _checked(given, conda_dependencies_file_path)

    @staticmethod
    def create(pip_indexurl=None, pip_packages=None, conda_packages=None, python_version=PYTHON_DEFAULT_VERSION,
               pin_sdk_version=True):
        made = CondaDependencies()
        made.set_python_version(python_version)
        if pip_indexurl:
            made.set_pip_index_url(pip_indexurl)
        for package in _listed("conda_packages", conda_packages):
            made.add_conda_package(package)
        pip_packages = _listed("pip_packages", pip_packages)
        if pip_packages:
            made.remove_pip_package("azureml-defaults")
        for package in pip_packages:
            made.add_pip_package(_pinned(package) if pin_sdk_version else package)
        return made

    @property
    def conda_channels(self):
        return iter(list(self._conda_dependencies.get(CHANNELS) or []))

    @property
    def conda_packages(self):
        return iter([package for package in self._packages() if not isinstance(package, dict)])

    @property
    def pip_packages(self):
        return iter([package for package in self._pip() if not package.startswith("-")])

    @property
    def pip_options(self):
        return iter([option for option in self._pip() if option.startswith("-")])

    def add_channel(self, channel):
        channels = self._conda_dependencies.setdefault(CHANNELS, [])
        if _text("channel", channel) not in channels:
            channels.append(channel)

    def remove_channel(self, channel):
        self._conda_dependencies[CHANNELS] = [one for one in self.conda_channels if one != channel]

    def add_conda_package(self, conda_package):
        pip = [package for package in self._packages() if isinstance(package, dict)]
        self._conda_dependencies[PACKAGES] = with_package(
            list(self.conda_packages), _text("conda_package", conda_package)) + pip
        self._chosen_by_sdk.discard(conda_package)

    def remove_conda_package(self, conda_package):
        name = package_name(_text("conda_package", conda_package))
        self._conda_dependencies[PACKAGES] = [
            package for package in self._packages() if isinstance(package, dict) or package_name(package) != name]

    def add_pip_package(self, pip_package):
        self._set_pip(list(self.pip_options) + with_package(list(self.pip_packages), _text("pip_package", pip_package)))
        self._chosen_by_sdk.discard(pip_package)

    def remove_pip_package(self, pip_package):
        name = package_name(_text("pip_package", pip_package))
        self._set_pip(list(self.pip_options) + [
            package for package in self.pip_packages
            if package != pip_package and (not name or package_name(package) != name)])

    def set_pip_requirements(self, pip_requirements):
        for package in _listed("pip_requirements", pip_requirements):
            if package.startswith("-"):
                self.set_pip_option(package)
            else:
                self.add_pip_package(package)

    def set_pip_option(self, pip_option):
        name = _text("pip_option", pip_option).split()[0].split("=")[0]
        repeatable = name in ("--extra-index-url", "-f", "--find-links", "--trusted-host", "-r", "--requirement")
        others = [option for option in self.pip_options
                  if option != pip_option and (repeatable or option.split()[0].split("=")[0] != name)]
        self._set_pip(others + [pip_option] + list(self.pip_packages))

    def remove_pip_option(self, pip_option):
        self._set_pip([option for option in self._pip()
                       if not (option.startswith("-") and option.split()[0] == pip_option.split()[0])])

    def set_pip_index_url(self, index_url):
        self.set_pip_option("--index-url %s" % index_url)

    def set_python_version(self, version):
        self.remove_conda_package(PYTHON_PREFIX)
        self._conda_dependencies.setdefault(PACKAGES, []).insert(0, "%s=%s" % (PYTHON_PREFIX, version))

    def get_python_version(self):
        """Python version of the file, or None."""
        for package in self.conda_packages:
            if package_name(package) == PYTHON_PREFIX:
                return package.partition(PYTHON_PREFIX)[2].lstrip("=<>~ ") or None
        return None

    def add_tensorflow_conda_package(self, core_type=CPU, version=None):
        package = "%s=%s" % (_for_core("tensorflow", core_type), version or TENSORFLOW_DEFAULT_VERSION)
        self.add_conda_package(package)
        if version is None:
            self._chosen_by_sdk.add(package)

    def add_tensorflow_pip_package(self, core_type=CPU, version=None):
        package = "%s==%s" % (_for_core("tensorflow", core_type), version or TENSORFLOW_DEFAULT_VERSION)
        self.add_pip_package(package)
        if version is None:
            self._chosen_by_sdk.add(package)

    def add_cntk_package(self, core_type=CPU):
        self.add_pip_package("%s==%s" % (_for_core("cntk", core_type), CNTK_DEFAULT_VERSION))

    def get_default_number_of_packages(self):
        return self.DEFAULT_NUMBER_OF_CONDA_PACKAGES + self.DEFAULT_NUMBER_OF_PIP_PACKAGES

    def as_dict(self):
        return _copied(self._conda_dependencies)

    def serialize_to_string(self):
        chosen = self._sdk_choices()
        return _HEADER + (_CHOICES + ", ".join(chosen) + "\n" if chosen else "") + dumps(self._conda_dependencies)

    def save(self, path=None):
        """Write the file; in a folder as conda_dependencies.yml. Returns the path."""
        path = path or _DEFAULT_FILE
        if os.path.isdir(path):
            path = os.path.join(path, _DEFAULT_FILE)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.serialize_to_string())
        return path

    def save_to_file(self, base_directory, conda_file_path=None):
        """Write the file below base_directory; returns its path relative to that folder."""
        conda_file_path = conda_file_path or CONDA_FILE_NAME
        self.save(os.path.join(base_directory, conda_file_path))
        return conda_file_path

    @staticmethod
    def merge_requirements(requirements):
        """Join repeated requirements of a package into one, version specifiers separated by commas."""
        merged = {}
        for requirement in requirements:
            text = requirement.strip()
            end = next((at for at, char in enumerate(text) if char in "=<>~! "), len(text))
            merged.setdefault(text[:end], []).append(text[end:].strip())
        return [name + ",".join(part for part in parts if part) for name, parts in merged.items()]

    @staticmethod
    def sdk_origin_url():
        return DEFAULT_SDK_ORIGIN

    def __repr__(self):
        return self.serialize_to_string()

    def _sdk_choices(self):
        """Packages whose version was set by the SDK, not by the user."""
        return sorted(self._chosen_by_sdk.intersection(self._pip() + list(self.conda_packages)))

    def _packages(self):
        return self._conda_dependencies.get(PACKAGES) or []

    def _pip(self):
        for package in self._packages():
            if isinstance(package, dict) and PIP in package:
                return [str(line) for line in package[PIP] or []]
        return []

    def _set_pip(self, lines):
        others = [package for package in self._packages() if not (isinstance(package, dict) and PIP in package)]
        self._conda_dependencies[PACKAGES] = others + ([{PIP: lines}] if lines else [])


def _default_structure():
    return {"name": "project_environment", PACKAGES: ["python=%s" % PYTHON_DEFAULT_VERSION,
                                                      {PIP: ["azureml-defaults"]}],
            CHANNELS: ["anaconda", "conda-forge"]}


def _read(path):
    if not os.path.isfile(path):
        raise UserErrorException("There is no conda dependencies file at %r." % str(path))
    with open(path, encoding="utf-8") as file:
        try:
            text = file.read(MAX_CHARACTERS + 1)
            chosen = [line[len(_CHOICES):].strip() for line in text.splitlines() if line.startswith(_CHOICES)]
            return loads(text), set(package for line in chosen for package in line.split(", "))
        except (YamlError, UnicodeDecodeError) as error:
            raise UserErrorException("The conda dependencies file %r cannot be read. %s" % (str(path), error))


def _checked(given, path):
    where = "The conda dependencies file %r" % str(path) if path else "A conda specification"
    if not isinstance(given, dict):
        raise UserErrorException("%s must hold a mapping with 'dependencies', got %r." % (where, given))
    structure = _copied(given)
    for key in (CHANNELS, PACKAGES):
        if not isinstance(structure.get(key, []), (list, type(None))):
            raise UserErrorException("%s: %r must be a list, got %r." % (where, key, structure[key]))
    packages = structure.get(PACKAGES) or []
    for package in packages:
        if isinstance(package, dict) and not isinstance(package.get(PIP), (list, type(None))):
            raise UserErrorException("%s: 'pip' must be a list, got %r." % (where, package.get(PIP)))
    structure[PACKAGES] = [package if isinstance(package, dict) else str(package) for package in packages]
    return structure


def _copied(value):
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    return value


def _pinned(package):
    name = package_name(package)
    if name.startswith("azureml-") and not any(sign in package for sign in "=<>~!"):
        return "%s==%s.*" % (package, VERSION)
    return package


def _for_core(package, core_type):
    if core_type not in (CPU, GPU):
        raise UserErrorException("core_type must be 'cpu' or 'gpu', got %r." % (core_type,))
    return package if core_type == CPU else package + "-gpu"


def _listed(argument, packages):
    if packages is None:
        return []
    if isinstance(packages, str):
        raise UserErrorException("%s must be a list of str, got the str %r." % (argument, packages))
    return [_text(argument, package) for package in packages]


def _text(argument, value):
    if not isinstance(value, str) or not value.strip():
        raise UserErrorException("%s must be the text of a package, got %r." % (argument, value))
    return value
