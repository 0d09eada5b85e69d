from runyard.access.blobs import CallerBlobs
from runyard.access.snapshots import checked_entries
from runyard.core.definitions.environment import BuildContextSection, EnvironmentDefinition
from runyard.core.definitions.fields import JsonObject, JsonValue
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.names import check_relative_path
from runyard.core.principal import Principal
from runyard.core.records.files import FileEntry
from runyard.environments.planning.image import LARGEST_DOCKERFILE_BYTES, check_dockerfile
from runyard.environments.workspace.secrets import PrivateAddresses, RegistryLogins

MOST_CONTEXT_FILES = 100_000


class EnvironmentIntake:
    """Checks environments that arrive with a run, build, asset or deployment, and moves their secrets to the vault.

    Only the result of `accept` may be stored or shown.
    """

    def __init__(self, logins: RegistryLogins, addresses: PrivateAddresses, blobs: CallerBlobs) -> None:
        self._logins, self._addresses, self._blobs = logins, addresses, blobs

    def accept(self, who: Principal, workspace: str, environment: EnvironmentDefinition) -> EnvironmentDefinition:
        """The environment without passwords, and with the text of its build context's Dockerfile. Raises
        InvalidArgument, or BlobsMissing for files of the context that the caller has not uploaded."""
        kept = self._logins.without_secrets(who, workspace, environment.checked())
        context = kept.docker.build_context
        if context is not None and context.rows:
            kept = kept.with_docker(buildContext=self._checked(who, kept, context))
        return self._without_secrets(workspace, kept)

    def of_definition(self, who: Principal, workspace: str, definition: RunDefinition) -> RunDefinition:
        """The run definition with its environment checked by `accept`."""
        if not definition.environment:
            return definition
        return definition.with_environment(self.accept(who, workspace, definition.environment))

    def _without_secrets(self, workspace: str, environment: EnvironmentDefinition) -> EnvironmentDefinition:
        """Remove secrets from the addresses that it is built from; variables are left to the script."""
        python, docker = environment.raw.get("python"), environment.docker_fields()
        kept = environment
        if python and (bare := self._addresses.without_secrets(workspace, python)) is not python:
            kept = kept.with_fields(python=bare)
        built_from = {name: docker[name] for name in ("baseDockerfile", "buildContext") if docker.get(name)}
        if built_from and (without := self._addresses.without_secrets(workspace, built_from)) is not built_from:
            kept = kept.with_docker(**without)
        return kept

    def _checked(self, who: Principal, environment: EnvironmentDefinition, context: BuildContextSection) -> JsonObject:
        entries = context.files
        if len(entries) > MOST_CONTEXT_FILES:
            raise InvalidArgument(
                f"The build context has {len(entries)} files, above {MOST_CONTEXT_FILES}.",
                hint="Leave out what the Dockerfile does not copy, by a .dockerignore or .amlignore.",
            )
        files = checked_entries(entries)
        self._blobs.require(who, files)
        rows: JsonValue = [[entry.path, entry.sha256, entry.size, entry.mode] for entry in files]
        return {**environment.build_context_fields(), "files": rows, "dockerfile": self._dockerfile(context, files)}

    def _dockerfile(self, context: BuildContextSection, files: list[FileEntry]) -> str:
        path = check_relative_path(context.dockerfile_path, "dockerfile_path")
        found = next((entry for entry in files if entry.path == path), None)
        if found is None:
            raise InvalidArgument(
                f"build_context has no file {path!r}.", hint="Give dockerfile_path relative to the folder."
            )
        with self._blobs.stored.open(found.sha256) as file:
            text = file.read(LARGEST_DOCKERFILE_BYTES + 1)
        if len(text) > LARGEST_DOCKERFILE_BYTES:
            raise InvalidArgument(f"The Dockerfile {path!r} is larger than {LARGEST_DOCKERFILE_BYTES} bytes.")
        return check_dockerfile(text.decode("utf-8", "replace"))
