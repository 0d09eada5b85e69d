from collections.abc import Mapping
from typing import Any

from runyard.errors import InvalidArgument
from runyard.model.files import FileEntry
from runyard.planning.image import (
    LARGEST_DOCKERFILE_BYTES,
    check_dockerfile,
    context_dockerfile,
    context_files,
    mapping_in,
)
from runyard.ports.blobs import BlobStore
from runyard.services.private_addresses import PrivateAddresses
from runyard.services.registries import RegistryLogins
from runyard.services.snapshots import checked_entries, require_blobs

MOST_CONTEXT_FILES = 100_000


class IncomingEnvironments:
    """Takes environments in, whatever they come with: a run, a build, an asset, a deployment. What is stored and shown
    is what `taken` gives back."""

    def __init__(self, logins: RegistryLogins, addresses: PrivateAddresses, blobs: BlobStore) -> None:
        self._logins, self._addresses, self._blobs = logins, addresses, blobs

    def taken(self, workspace: str, environment: Any) -> dict[str, Any]:
        """Without passwords, and with the text of its build context's Dockerfile. Raises InvalidArgument, or
        BlobsMissing for files of the context that were not sent before."""
        if not isinstance(environment, Mapping):
            raise InvalidArgument("environment must be an object.", hint="Send it as Environment makes it.")
        kept = self._logins.taken_out(workspace, environment)
        context = mapping_in(mapping_in(kept, "docker"), "buildContext")
        if context.get("files"):
            kept = {**kept, "docker": {**kept["docker"], "buildContext": self._checked(context, kept["docker"])}}
        return self._without_secrets(workspace, kept)

    def of_definition(self, workspace: str, definition: Mapping[str, Any]) -> dict[str, Any]:
        """A run definition with its environment taken in."""
        if not definition.get("environment"):
            return dict(definition)
        return {**definition, "environment": self.taken(workspace, definition["environment"])}

    def _without_secrets(self, workspace: str, environment: dict[str, Any]) -> dict[str, Any]:
        """Of the addresses in what it is built from; its variables are the script's."""
        docker, kept = mapping_in(environment, "docker"), dict(environment)
        if environment.get("python"):
            kept["python"] = self._addresses.taken_out(workspace, environment["python"])
        built_from = {name: docker[name] for name in ("baseDockerfile", "buildContext") if docker.get(name)}
        if built_from:
            kept["docker"] = {**docker, **self._addresses.taken_out(workspace, built_from)}
        return kept

    def _checked(self, context: Mapping[str, Any], docker: Mapping[str, Any]) -> dict[str, Any]:
        entries = context_files(docker)
        if len(entries) > MOST_CONTEXT_FILES:
            raise InvalidArgument(
                f"The build context has {len(entries)} files, above {MOST_CONTEXT_FILES}.",
                hint="Leave out what the Dockerfile does not copy, by a .dockerignore or .amlignore.",
            )
        files = checked_entries(entries)
        require_blobs(self._blobs, files)
        rows = [[entry.path, entry.sha256, entry.size, entry.mode] for entry in files]
        return {**context, "files": rows, "dockerfile": self._dockerfile(context, files)}

    def _dockerfile(self, context: Mapping[str, Any], files: list[FileEntry]) -> str:
        path = context_dockerfile(context)
        found = next((entry for entry in files if entry.path == path), None)
        if found is None:
            raise InvalidArgument(
                f"build_context has no file {path!r}.", hint="Give dockerfile_path relative to the folder."
            )
        with self._blobs.open(found.sha256) as file:
            text = file.read(LARGEST_DOCKERFILE_BYTES + 1)
        if len(text) > LARGEST_DOCKERFILE_BYTES:
            raise InvalidArgument(f"The Dockerfile {path!r} is larger than {LARGEST_DOCKERFILE_BYTES} bytes.")
        return check_dockerfile(text.decode("utf-8", "replace"))
