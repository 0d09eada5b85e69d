"""Definition of an environment as SDK v1 writes it: variables, packages and container image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from runyard.core.definitions.fields import NOTHING, Fields, JsonObject, JsonValue, as_object, read_once, shown
from runyard.core.errors import InvalidArgument
from runyard.core.names import check_relative_path
from runyard.core.records.assets import AssetKind
from runyard.core.records.files import FileEntry

_DEFAULT_DOCKERFILE = "Dockerfile"
_SECTIONS = ("variables", "python", "docker")


@dataclass(frozen=True)
class PythonSection:
    user_managed: bool
    interpreter_path: str
    conda_packages: tuple[str, ...]
    pip_packages: tuple[str, ...]
    channels: tuple[str, ...]
    versions_chosen_by_sdk: tuple[str, ...]
    """Package lines whose version the SDK filled in, not the user."""


@dataclass(frozen=True)
class BuildContextSection:
    location_type: str
    dockerfile_path: str
    dockerfile: str
    """Text of the Dockerfile; read from the context when the environment is registered or submitted."""
    rows: JsonValue
    """Files as the client sent them; parsed by `files`, because there may be many."""

    @read_once
    def files(self) -> tuple[FileEntry, ...]:
        """Files with their paths below the context."""
        return file_entries(self.rows, "files of the build context", "the build context's path")


@dataclass(frozen=True)
class DockerSection:
    enabled: bool
    arguments: tuple[str, ...]
    shm_size: JsonValue
    base_image: str
    base_dockerfile: str
    registry_address: str
    registry_login: Mapping[str, JsonValue]
    """The given values of `username` and `password`."""
    build_context: BuildContextSection | None
    platform_os: str
    platform_architecture: str


@dataclass(frozen=True)
class EnvironmentDefinition:
    """`raw` is stored and shown as it is. Each section is read once, on first use."""

    kind: ClassVar[AssetKind] = AssetKind.ENVIRONMENT
    raw: JsonObject = field(default_factory=dict)

    @classmethod
    def parse(cls, value: JsonValue) -> "EnvironmentDefinition":
        """Raises InvalidArgument naming the wrong field."""
        if not isinstance(value, Mapping):
            raise InvalidArgument("environment must be an object.", hint="Send it as Environment makes it.")
        return cls(value).checked()

    def checked(self) -> "EnvironmentDefinition":
        """Read every section and return the definition."""
        _ = self.name, self.version, self.variables, self.python, self.docker
        return self

    def __bool__(self) -> bool:
        """False if no field is given."""
        return bool(self.raw)

    def with_fields(self, **fields: JsonValue) -> "EnvironmentDefinition":
        """Return a copy with these fields replaced."""
        return EnvironmentDefinition({**self.raw, **fields})

    def called(self, name: str, version: str) -> "EnvironmentDefinition":
        """Copy with another name and version. Keeps the sections that were already read."""
        made = self.with_fields(name=name, version=version)
        made.__dict__.update({key: value for key, value in self.__dict__.items() if key in _SECTIONS})
        return made

    def with_docker(self, **fields: JsonValue) -> "EnvironmentDefinition":
        """Return a copy with these fields of its `docker` section replaced."""
        return self.with_fields(docker={**self.docker_fields(), **fields})

    def docker_fields(self) -> JsonObject:
        """The stored `docker` section."""
        return self._fields.section("docker").raw

    def build_context_fields(self) -> JsonObject:
        return self._fields.section("docker").section("buildContext").raw

    def with_pip_package(self, package: str) -> "EnvironmentDefinition":
        python = self._fields.section("python")
        conda = python.section("condaDependencies")
        dependencies = [*conda.items("dependencies"), {"pip": [package]}]
        return self.with_fields(
            python={**python.raw, "condaDependencies": {**conda.raw, "dependencies": dependencies}},
        )

    @property
    def name(self) -> str:
        return self._fields.text("name")

    @property
    def version(self) -> str:
        return self._fields.text("version")

    @read_once
    def variables(self) -> Mapping[str, str]:
        """The user's environment variables for the script."""
        given = self.raw.get("environmentVariables")
        if not given:
            return {}
        if not isinstance(given, Mapping):
            raise InvalidArgument(
                f"environment.environmentVariables must hold variables by name, got {shown(given)}.",
                hint="Give environment_variables as a dict.",
            )
        variables = {str(name): str(value) for name, value in given.items()}
        for name, value in variables.items():
            if why := why_no_variable(name, value):
                raise InvalidArgument(f"environment_variables has {ascii(name)[:80]}, {why}.", hint="Take it out.")
        return variables

    @read_once
    def python(self) -> PythonSection:
        given = self._fields.section("python")
        conda = given.section("condaDependencies")
        packages, pip = _dependencies(conda)
        by_sdk = given.raw.get("versionsChosenBySdk")
        return PythonSection(
            user_managed=given.flag("userManagedDependencies"),
            interpreter_path=given.text("interpreterPath"),
            conda_packages=packages,
            pip_packages=pip,
            channels=conda.texts("channels"),
            versions_chosen_by_sdk=tuple(map(str, by_sdk)) if isinstance(by_sdk, list | tuple) else (),
        )

    @read_once
    def docker(self) -> DockerSection:
        given = self._fields.section("docker")
        registry, platform, context = (
            given.section(name) for name in ("baseImageRegistry", "platform", "buildContext")
        )
        return DockerSection(
            enabled=given.flag("enabled"),
            arguments=docker_arguments(given.raw.get("arguments")),
            shm_size=given.raw.get("shmSize"),
            base_image=given.text("baseImage").strip(),
            base_dockerfile=given.text("baseDockerfile"),
            registry_address=registry.text("address"),
            registry_login={name: registry.raw.get(name) for name in ("username", "password") if name in registry.raw},
            build_context=_build_context(context) if context.raw else None,
            platform_os=platform.text("os", "linux"),
            platform_architecture=platform.text("architecture", "amd64"),
        )

    @property
    def _fields(self) -> Fields:
        return Fields(self.raw, "environment")


def why_no_variable(name: str, value: str) -> str:
    """Why no process can be started with this variable; "" if it can."""
    if not name or "=" in name or "\0" in name:
        return "which is no name of a variable: that has a letter and neither '=' nor NUL"
    return "whose value has a NUL" if "\0" in value else ""


def docker_arguments(value: JsonValue) -> tuple[str, ...]:
    """Arguments as a tuple; a single string counts as a list of one."""
    given = [value] if isinstance(value, str) else value or ()
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise InvalidArgument(f"docker.arguments must be a list of strings, got {shown(value)}.")
    return tuple(filter(None, given))


def file_entries(rows: JsonValue, called: str, path_called: str) -> tuple[FileEntry, ...]:
    """Parse a list of [path, sha256, size, mode]. Raises InvalidArgument."""
    try:
        given: Sequence[tuple[str, str, int, int]] = rows or ()  # type: ignore[assignment]  # each is checked below
        entries = [FileEntry(str(path), str(sha256), int(size), int(mode)) for path, sha256, size, mode in given]
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"{called} must be a list of [path, sha256, size, mode].") from None
    for entry in entries:
        check_relative_path(entry.path, path_called)
    return tuple(entries)


def _dependencies(conda: Fields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Conda packages and pip packages; the latter are in an object among the dependencies."""
    packages: list[str] = []
    pip: list[str] = []
    for entry in conda.items("dependencies"):
        if isinstance(entry, Mapping):
            pip += Fields(entry, conda.path_of("dependencies")).texts("pip")
        else:
            packages.append(str(entry))
    return tuple(packages), tuple(pip)


def _build_context(given: Fields) -> BuildContextSection:
    return BuildContextSection(
        location_type=given.text("locationType"),
        dockerfile_path=given.text("dockerfilePath", _DEFAULT_DOCKERFILE),
        dockerfile=given.text("dockerfile"),
        rows=given.raw.get("files"),
    )


def environment_in(raw: JsonObject) -> EnvironmentDefinition:
    """Environment in the field `environment` of an object; an empty one if it has none."""
    value = raw.get("environment")
    return EnvironmentDefinition(as_object(value, "environment") if value else NOTHING)
