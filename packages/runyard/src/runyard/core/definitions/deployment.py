"""Definition of a deployment: its models, scoring script and configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from runyard.core.definitions.environment import EnvironmentDefinition, file_entries
from runyard.core.definitions.fields import NOTHING, Fields, JsonObject, JsonValue, as_object, shown
from runyard.core.definitions.run import Submitter, submitter_of
from runyard.core.errors import InvalidArgument
from runyard.core.names import check_relative_path
from runyard.core.records.files import FileEntry
from runyard.core.records.web_services import ServiceType


@dataclass(frozen=True)
class InferenceConfig:
    """A scoring script, its files and its environment."""

    entry_script: str
    """Path in `files`."""
    files: tuple[FileEntry, ...]
    environment: EnvironmentDefinition | None = None
    """None: an environment that fits the models is chosen."""
    description: str = ""
    source_directory: str = ""

    @classmethod
    def parse(cls, value: JsonValue) -> "InferenceConfig":
        """Raises InvalidArgument. Does not check that the blobs of the files are stored."""
        if not isinstance(value, Mapping):
            raise InvalidArgument("inference must be an object.", hint="Send it as InferenceConfig does.")
        given = Fields(value, "inference")
        files = file_entries(value.get("files"), "files", "path")
        environment = value.get("environment")
        if environment is not None and not isinstance(environment, Mapping):
            raise InvalidArgument(
                "environment must be an Environment's object.", hint="Send it as InferenceConfig does."
            )
        return cls(
            entry_script=_entry_script(value.get("entry_script"), files),
            files=files,
            environment=None if environment is None else EnvironmentDefinition.parse(environment),
            description=given.text("description"),
            source_directory=given.text("source_directory"),
        )

    def to_json(self) -> JsonObject:
        """JSON for storage and responses."""
        return {
            "entry_script": self.entry_script,
            "files": [[entry.path, entry.sha256, entry.size, entry.mode] for entry in self.files],
            "environment": None if self.environment is None else self.environment.raw,
            "description": self.description,
            "source_directory": self.source_directory,
        }


@dataclass(frozen=True)
class DeploymentSpec:
    """A deployment request; None for a field that is not given. `config` is the deploy_configuration, which the table
    of parameters checks."""

    type: ServiceType | None = None
    models: tuple[str, ...] | None = None
    """Each as NAME:VERSION, NAME for the newest version, or an id."""
    inference: InferenceConfig | None = None
    config: JsonObject = field(default_factory=dict)
    image_id: str | None = None
    """Image that provides models and script if the deployment does not name them."""
    submitter: Submitter | None = None

    @classmethod
    def parse(cls, raw: JsonObject, *, type: str | None = None) -> "DeploymentSpec":
        """Raises InvalidArgument. `type` is used if the body has none."""
        given, word = Fields(raw), raw.get("type") or type
        inference, submitter = raw.get("inference"), raw.get("submitter")
        config, models = raw.get("config"), raw.get("models")
        return cls(
            type=None if word is None else service_type(word),
            models=None if models is None else _names(models),
            inference=None if inference is None else InferenceConfig.parse(inference),
            config=NOTHING if config is None else as_object(config, "config"),
            image_id=given.text("image_id") or None,
            submitter=None if submitter is None else submitter_of(given.section("submitter")),
        )

    @property
    def redefines(self) -> bool:
        """True if it changes what is served: a model, script or image."""
        return self.models is not None or self.inference is not None or self.image_id is not None

    def over(self, stored: "DeploymentSpec", config: JsonObject) -> "DeploymentSpec":
        """The stored deployment with this change applied. A change of models or code drops the reference to the
        image."""
        kept = replace(
            stored,
            config=config,
            models=stored.models if self.models is None else self.models,
            inference=self.inference or stored.inference,
            image_id=self.image_id or stored.image_id,
            submitter=self.submitter or stored.submitter,
        )
        if self.image_id:
            return replace(kept, models=self.models, inference=self.inference)
        return replace(kept, image_id=None) if self.redefines else kept


def service_type(word: JsonValue) -> ServiceType:
    for known in ServiceType:
        if isinstance(word, str) and word.lower() == known.value.lower():
            return known
    raise InvalidArgument(f"type must be one of {', '.join(ServiceType)}, got {shown(word)}.")


def _names(given: JsonValue) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise InvalidArgument("models must be a list of NAME:VERSION.")
    return tuple(map(str, given))


def _entry_script(given: JsonValue, files: Sequence[FileEntry]) -> str:
    if not isinstance(given, str) or not given:
        raise InvalidArgument("inference_config has no entry_script.", hint="Give the path of your scoring script.")
    path = check_relative_path(given.replace("\\", "/"), "entry_script")
    if path not in {entry.path for entry in files}:
        raise InvalidArgument(
            f"The entry_script {given!r} is not in the source_directory.",
            hint="Give its path relative to source_directory.",
        )
    if not path.endswith(".py"):
        raise InvalidArgument(f"The entry_script {given!r} is no Python file.", hint="Its name ends in '.py'.")
    return path
