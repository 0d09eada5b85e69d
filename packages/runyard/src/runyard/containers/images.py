"""The images of an engine: asked for, pulled, built, committed, removed."""

import json
import re
from collections.abc import Callable, Mapping
from typing import IO, Any

from runyard.containers.archives import sent_again_if_broken
from runyard.containers.failures import ImageInUse, Refused, build_failed, pull_failed
from runyard.containers.records import (
    PODMAN,
    BuildContext,
    EngineFacts,
    ImageEntry,
    ImageFacts,
    image_entry,
    image_facts,
    with_algorithm,
)
from runyard.containers.registries import RegistryCredentials, headers_for_builds, split_tag
from runyard.containers.speaking import Lines, PullProgress, Say, error_of, events
from runyard.containers.transport import Transport
from runyard.errors import EnvironmentFailed, InvalidArgument
from runyard.model.causes import Cause
from runyard.model.images import DEFAULT_PLATFORM

__all__ = ["ImageEntry", "ImageFacts", "ImageInUse", "Images", "RegistryCredentials", "checked_reference"]
COMMIT_SECONDS = 1800.0
SILENT_SECONDS = 1800.0
"""A build step, or a layer that is unpacked, may be silent for long; an engine that died is noticed at once."""
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}")


class Images:
    def __init__(self, transport: Transport, facts: Callable[[], EngineFacts]) -> None:
        self._transport, self._facts = transport, facts

    def find(self, reference: str) -> ImageFacts | None:
        """By name or id, from what the engine has: no registry is asked."""
        try:
            return image_facts(self._transport.get(f"/images/{checked_reference(reference)}/json"))
        except Refused as no:
            if no.http_status == 404:
                return None
            raise

    def pull(
        self,
        reference: str,
        say: Say,
        *,
        credentials: RegistryCredentials | None = None,
        platform: str = DEFAULT_PLATFORM,
    ) -> ImageFacts:
        """The image as its registry has it now. `say` takes a line for each step of each layer."""
        name, tag = split_tag(checked_reference(reference))
        headers = {"X-Registry-Auth": credentials.header()} if credentials else {}
        query = {"fromImage": name, "tag": tag, "platform": platform}
        progress = PullProgress(say)
        try:
            with self._transport.opened(
                "POST", "/images/create", query, seconds=SILENT_SECONDS, headers=headers
            ) as answer:
                for event in events(answer):
                    if said := error_of(event):
                        raise pull_failed(reference, said, with_credentials=bool(credentials))
                    progress.tell(event)
        except Refused as no:
            raise pull_failed(reference, no.said, with_credentials=bool(credentials)) from no
        return self._for_platform(reference, platform)

    def build(
        self,
        context: BuildContext,
        say: Say,
        *,
        name: str,
        platform: str = DEFAULT_PLATFORM,
        labels: Mapping[str, str] | None = None,
        build_args: Mapping[str, str] | None = None,
        credentials: Mapping[str, RegistryCredentials] | None = None,
        network: str = "host",
        is_offline: bool = False,
    ) -> ImageFacts:
        """Build the context's Dockerfile. With `is_offline`, an image that it starts from must be here already."""
        if is_offline:
            self._want_here(context.bases)
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
        return self._there(self._built(context, query, headers, say) or name)

    def commit(
        self,
        container: str,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        changes: tuple[str, ...] = (),
        message: str = "",
    ) -> ImageFacts:
        """What the container changed, as a layer on top of its image. `changes` are lines of a Dockerfile. The image
        keeps the container's variables and labels, but not its command."""
        repository, tag = split_tag(name)
        settings = self._settings_of_its_image(container)
        settings["Labels"] = dict(labels or {})
        if self._facts().name == PODMAN:  # which takes them as lines only, and no comment
            changes, message = (*_lines_of(settings), *changes), ""
        query = {"container": container, "repo": repository, "tag": tag, "comment": message, "changes": changes}
        made = self._transport.ask("POST", "/commit", query, settings, seconds=COMMIT_SECONDS)
        return self._there(with_algorithm(str(made["Id"])))

    def import_archive(self, archive: IO[bytes], name: str, *, changes: tuple[str, ...] = ()) -> ImageFacts:
        """Make an image of one layer from the files of a tar. `archive` can be rewound."""
        query = {"fromSrc": "-", "repo": ":".join(split_tag(name)), "changes": changes}
        headers = {"Content-Type": "application/x-tar"}

        def send() -> None:
            with self._transport.opened(
                "POST", "/images/create", query, archive, seconds=SILENT_SECONDS, headers=headers
            ) as answer:
                for event in events(answer):
                    if said := error_of(event):
                        raise Refused(f"the import of {name}", 500, said)

        sent_again_if_broken(archive, send)
        return self._there(name)

    def tag(self, image: str, name: str) -> None:
        repository, tag = split_tag(checked_reference(name))
        self._transport.ask("POST", f"/images/{checked_reference(image)}/tag", {"repo": repository, "tag": tag})

    def push(self, name: str, say: Say, *, credentials: RegistryCredentials) -> None:
        repository, tag = split_tag(checked_reference(name))
        headers = {"X-Registry-Auth": credentials.header()}
        progress = PullProgress(say)
        with self._transport.opened(
            "POST", f"/images/{repository}/push", {"tag": tag}, seconds=SILENT_SECONDS, headers=headers
        ) as answer:
            for event in events(answer):
                if said := error_of(event):
                    raise Refused(f"the push of {name}", 500, said)
                progress.tell(event)

    def remove(self, reference: str, *, is_forced: bool = False) -> bool:
        """False where it is not there. By force, all its names go and stopped containers do not hold it."""
        try:
            self._transport.ask(
                "DELETE", f"/images/{checked_reference(reference)}", {"force": is_forced}, seconds=COMMIT_SECONDS
            )
        except Refused as no:
            if no.http_status == 404:
                return False
            if no.http_status == 409:
                raise ImageInUse(no.problem, hint="", cause=Cause.ENGINE_FAILED, said=no.said) from no
            raise
        return True

    def with_labels(self, labels: Mapping[str, str]) -> tuple[ImageEntry, ...]:
        wanted = {"label": [f"{name}={value}" if value else name for name, value in labels.items()]} if labels else {}
        return tuple(image_entry(body) for body in self._transport.get("/images/json", {"filters": wanted}) or ())

    def history(self, reference: str) -> tuple[str, ...]:
        """How each layer was made, newest first."""
        steps = self._transport.get(f"/images/{checked_reference(reference)}/history") or ()
        return tuple(str(step.get("CreatedBy", "")) for step in steps)

    def _there(self, reference: str) -> ImageFacts:
        found = self.find(reference)
        if found is None:
            raise EnvironmentFailed(
                f"Image {reference!r} was made and is gone again.",
                hint="Something else removes images of this engine; submit again.",
                cause=Cause.ENGINE_FAILED,
                said="no such image",
            )
        return found

    def _for_platform(self, reference: str, platform: str) -> ImageFacts:
        facts = self._there(reference)
        wanted = platform.split("/")[1] if "/" in platform else ""
        if wanted and facts.architecture and facts.architecture != wanted:
            said = f"image is {facts.system}/{facts.architecture}, does not match the specified platform {platform}"
            raise pull_failed(reference, said, with_credentials=False)
        return facts

    def _built(self, context: BuildContext, query: dict[str, object], headers: dict[str, str], say: Say) -> str:
        """The id of the image, where the engine tells it."""
        lines, made = Lines(say), ""
        try:
            with self._transport.opened(
                "POST", "/build", query, context.archive, seconds=SILENT_SECONDS, headers=headers
            ) as answer:
                for event in events(answer):
                    if said := error_of(event):
                        raise build_failed(said)
                    lines.write(str(event.get("stream") or ""))
                    made = (event.get("aux") or {}).get("ID") or made
        except Refused as no:
            raise build_failed(no.said) from no
        finally:
            lines.close()
        return made

    def _network(self, name: str) -> dict[str, object]:
        """Of a build's steps. podman listens to docker's word for it no further than that it is one."""
        if self._facts().name != PODMAN:
            return {"networkmode": name}
        if name == "none":
            return {"networkmode": "NetworkDisabled"}
        return {"nsoptions": [{"Name": "network", "Host": name == "host"}]}

    def _want_here(self, bases: tuple[str, ...]) -> None:
        missing = [base for base in bases if self.find(base) is None]
        if missing:
            raise EnvironmentFailed(
                f"The workspace is offline, and image {missing[0]!r} is not on this machine.",
                hint=f"Bring it once (`docker pull {missing[0]}` or `docker load`), or switch offline off.",
                cause=Cause.OFFLINE,
                said=f"no such image: {missing[0]}",
            )

    def _settings_of_its_image(self, container: str) -> dict[str, Any]:
        """For a new image in place of the container's own; an empty list is one that was chosen."""
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
    """A name, with or without tag or digest, or an id. What it may hold is no path of the engine's API."""
    if not _REFERENCE.fullmatch(reference) or ".." in reference or "//" in reference:
        raise InvalidArgument(
            f"{reference!r} is no name of a container image.",
            hint="A name is like registry.example:5000/team/image:tag, in lower case and without spaces.",
        )
    return reference
