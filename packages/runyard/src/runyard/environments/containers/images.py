import json
import re
from collections.abc import Callable, Mapping
from typing import IO, Any

from runyard.core.errors import EnvironmentFailed, InvalidArgument
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import DEFAULT_PLATFORM
from runyard.environments.containers.failures import EngineRefused, ImageInUse, build_failed, pull_failed
from runyard.environments.containers.output import BoundedLog, PullProgress, engine_events, event_error
from runyard.environments.containers.records import (
    PODMAN,
    BuildContext,
    EngineFacts,
    ImageEntry,
    ImageFacts,
    image_entry,
    image_facts,
    with_algorithm,
)
from runyard.environments.containers.registries import RegistryCredentials, headers_for_builds, split_tag
from runyard.environments.containers.transport import EngineTransport, retry_broken_pipe
from runyard.environments.programs import LogLine

COMMIT_SECONDS = 1800.0
SILENT_SECONDS = 1800.0
"""A build step or a layer being unpacked may send nothing for long; a dead engine closes the connection."""
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}")


class Images:
    def __init__(self, transport: EngineTransport, facts: Callable[[], EngineFacts]) -> None:
        self._transport, self._facts = transport, facts

    def find(self, reference: str) -> ImageFacts | None:
        """Find a local image by name or id; asks no registry."""
        try:
            return image_facts(self._transport.get(f"/images/{checked_reference(reference)}/json"))
        except EngineRefused as error:
            if error.http_status == 404:
                return None
            raise

    def pull(
        self,
        reference: str,
        log: LogLine,
        *,
        credentials: RegistryCredentials | None = None,
        platform: str = DEFAULT_PLATFORM,
    ) -> ImageFacts:
        """Pull the image from its registry; logs a line for each step of each layer."""
        name, tag = split_tag(checked_reference(reference))
        headers = {"X-Registry-Auth": credentials.header()} if credentials else {}
        query = {"fromImage": name, "tag": tag, "platform": platform}
        progress = PullProgress(log)
        try:
            with self._transport.opened(
                "POST", "/images/create", query, seconds=SILENT_SECONDS, headers=headers
            ) as answer:
                for event in engine_events(answer):
                    if message := event_error(event):
                        raise pull_failed(reference, message, with_credentials=bool(credentials))
                    progress.add(event)
        except EngineRefused as error:
            raise pull_failed(reference, error.said, with_credentials=bool(credentials)) from error
        return self._for_platform(reference, platform)

    def build(
        self,
        context: BuildContext,
        log: LogLine,
        *,
        name: str,
        platform: str = DEFAULT_PLATFORM,
        labels: Mapping[str, str] | None = None,
        build_args: Mapping[str, str] | None = None,
        credentials: Mapping[str, RegistryCredentials] | None = None,
        network: str = "host",
        is_offline: bool = False,
    ) -> ImageFacts:
        """Build the Dockerfile of the context. With `is_offline`, its base images must be local."""
        if is_offline:
            self._require_local(context.bases)
        query = {
            "t": name,
            "dockerfile": context.dockerfile,
            "platform": platform,
            "labels": dict(labels or {}),
            "buildargs": dict(build_args or {}),
            **self._network(network),
            "rm": True,
            "forcerm": True,
        }
        headers = {"Content-Type": "application/x-tar", **headers_for_builds(credentials or {})}
        return self._get(self._built(context, query, headers, log) or name)

    def commit(
        self,
        container: str,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        changes: tuple[str, ...] = (),
        message: str = "",
    ) -> ImageFacts:
        """Commit the container's changes as a layer on its image. `changes` are lines of a Dockerfile. The new image
        has the container's variables, but entrypoint and command of the old image."""
        repository, tag = split_tag(name)
        settings = self._settings_of_its_image(container)
        settings["Labels"] = dict(labels or {})
        if self._facts().name == PODMAN:  # which takes them as lines only, and no comment
            changes, message = (*_lines_of(settings), *changes), ""
        query = {"container": container, "repo": repository, "tag": tag, "comment": message, "changes": changes}
        made = self._transport.ask("POST", "/commit", query, settings, seconds=COMMIT_SECONDS)
        return self._get(with_algorithm(str(made["Id"])))

    def import_archive(self, archive: IO[bytes], name: str, *, changes: tuple[str, ...] = ()) -> ImageFacts:
        """Make an image of one layer from a seekable tar."""
        query = {"fromSrc": "-", "repo": ":".join(split_tag(name)), "changes": changes}
        headers = {"Content-Type": "application/x-tar"}

        def send() -> None:
            with self._transport.opened(
                "POST", "/images/create", query, archive, seconds=SILENT_SECONDS, headers=headers
            ) as answer:
                for event in engine_events(answer):
                    if message := event_error(event):
                        raise EngineRefused(f"the import of {name}", 500, message)

        retry_broken_pipe(archive, send)
        return self._get(name)

    def tag(self, image: str, name: str) -> None:
        repository, tag = split_tag(checked_reference(name))
        self._transport.ask("POST", f"/images/{checked_reference(image)}/tag", {"repo": repository, "tag": tag})

    def push(self, name: str, log: LogLine, *, credentials: RegistryCredentials) -> None:
        repository, tag = split_tag(checked_reference(name))
        headers = {"X-Registry-Auth": credentials.header()}
        progress = PullProgress(log)
        with self._transport.opened(
            "POST", f"/images/{repository}/push", {"tag": tag}, seconds=SILENT_SECONDS, headers=headers
        ) as answer:
            for event in engine_events(answer):
                if message := event_error(event):
                    raise EngineRefused(f"the push of {name}", 500, message)
                progress.add(event)

    def remove(self, reference: str, *, is_forced: bool = False) -> bool:
        """Remove an image; False if it does not exist. Raises ImageInUse. With `is_forced`, all its names are removed
        and stopped containers do not keep it."""
        try:
            self._transport.ask(
                "DELETE", f"/images/{checked_reference(reference)}", {"force": is_forced}, seconds=COMMIT_SECONDS
            )
        except EngineRefused as error:
            if error.http_status == 404:
                return False
            if error.http_status == 409:
                raise ImageInUse(error.problem, hint="", cause=FailureCause.ENGINE_FAILED, said=error.said) from error
            raise
        return True

    def with_labels(self, labels: Mapping[str, str]) -> tuple[ImageEntry, ...]:
        wanted = {"label": [f"{name}={value}" if value else name for name, value in labels.items()]} if labels else {}
        return tuple(image_entry(body) for body in self._transport.get("/images/json", {"filters": wanted}) or ())

    def history(self, reference: str) -> tuple[str, ...]:
        """Commands that created the layers, newest first."""
        steps = self._transport.get(f"/images/{checked_reference(reference)}/history") or ()
        return tuple(str(step.get("CreatedBy", "")) for step in steps)

    def _get(self, reference: str) -> ImageFacts:
        found = self.find(reference)
        if found is None:
            raise EnvironmentFailed(
                f"Image {reference!r} was made and is gone again.",
                hint="Something else removes images of this engine; submit again.",
                cause=FailureCause.ENGINE_FAILED,
                said="no such image",
            )
        return found

    def _for_platform(self, reference: str, platform: str) -> ImageFacts:
        facts = self._get(reference)
        wanted = platform.split("/")[1] if "/" in platform else ""
        if wanted and facts.architecture and facts.architecture != wanted:
            message = f"image is {facts.system}/{facts.architecture}, does not match the specified platform {platform}"
            raise pull_failed(reference, message, with_credentials=False)
        return facts

    def _built(self, context: BuildContext, query: dict[str, object], headers: dict[str, str], log: LogLine) -> str:
        """Send the build; returns the id of the image if the engine reports it."""
        lines, made = BoundedLog(log), ""
        try:
            with self._transport.opened(
                "POST", "/build", query, context.archive, seconds=SILENT_SECONDS, headers=headers
            ) as answer:
                for event in engine_events(answer):
                    if message := event_error(event):
                        raise build_failed(message)
                    lines.write(str(event.get("stream") or ""))
                    made = (event.get("aux") or {}).get("ID") or made
        except EngineRefused as error:
            raise build_failed(error.said) from error
        finally:
            lines.close()
        return made

    def _network(self, name: str) -> dict[str, object]:
        """Query parameters for the network of build steps; podman ignores the value of docker's parameter."""
        if self._facts().name != PODMAN:
            return {"networkmode": name}
        if name == "none":
            return {"networkmode": "NetworkDisabled"}
        return {"nsoptions": [{"Name": "network", "Host": name == "host"}]}

    def _require_local(self, bases: tuple[str, ...]) -> None:
        missing = [base for base in bases if self.find(base) is None]
        if missing:
            raise EnvironmentFailed(
                f"The workspace is offline, and image {missing[0]!r} is not on this machine.",
                hint=f"Bring it once (`docker pull {missing[0]}` or `docker load`), or switch offline off.",
                cause=FailureCause.OFFLINE,
                said=f"no such image: {missing[0]}",
            )

    def _settings_of_its_image(self, container: str) -> dict[str, Any]:
        """Entrypoint, command, folder and user of the container's image, for a commit. An empty list is explicit."""
        image = self._transport.get(f"/containers/{container}/json")["Image"]
        known = self._transport.get(f"/images/{image}/json").get("Config") or {}
        return {
            "Entrypoint": known.get("Entrypoint") or [],
            "Cmd": known.get("Cmd") or [],
            "WorkingDir": known.get("WorkingDir") or "/",
            "User": known.get("User") or "0",
        }


def _lines_of(settings: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"ENTRYPOINT {json.dumps(settings['Entrypoint'])}",
        f"CMD {json.dumps(settings['Cmd'])}",
        f"WORKDIR {settings['WorkingDir']}",
        f"USER {settings['User']}",
        *(f'LABEL "{name}"="{value}"' for name, value in settings["Labels"].items()),
    )


def checked_reference(reference: str) -> str:
    """An image name or id, checked so that it cannot form another path of the engine's API."""
    if not _REFERENCE.fullmatch(reference) or ".." in reference or "//" in reference:
        raise InvalidArgument(
            f"{reference!r} is no name of a container image.",
            hint="A name is like registry.example:5000/team/image:tag, in lower case and without spaces.",
        )
    return reference
