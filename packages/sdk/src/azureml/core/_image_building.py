"""Building an environment ahead of the runs that need it, and the facts of the image it lies in."""
import os

from azureml._environment_object import environment_object
from azureml._service import translated
from runyard_sdk import errors
from runyard_sdk.submitter import submitter_facts

_ENDED = ("Succeeded", "Failed")
_TOLD_EVERY_SECONDS = 0.5
_ASKED_EVERY_SECONDS = 20


def start_build(environment, workspace):
    """Have the service build it; returns at once. What is built already has succeeded then."""
    record = workspace._client.post(workspace._path("builds"), {
        "environment": environment_object(environment, "."), "submitter": submitter_facts()})
    return ImageBuildDetails(workspace._client, workspace._path("builds", record["id"]))


def image_details(workspace, name, version):
    """The facts of the image of a registered environment, whether it was built or not."""
    try:
        found = workspace._client.get(workspace._path("environments", name, "image"), version=version)
    except errors.NotFound:
        found = None
    return DockerImageDetails(_as_v1(found))


class ImageBuildDetails(object):
    """A build that goes on, or has ended. `log_url` is where its log can be read."""

    def __init__(self, environment_client, location):
        self.environment_client = environment_client
        self.log_url = "%s/api/v1%s/log" % (environment_client.transport.address, location) if location else None
        self._path = location

    @property
    def status(self):
        """"Queued", "Running", "Succeeded" or "Failed", as of now."""
        return self._record()["state"]

    def get_log(self):
        """All that the build has said so far."""
        return self._log_after(0).decode("utf-8", "replace")

    def wait_for_completion(self, show_output=True):
        """Return when it is built, itself; raise with the cause and the next step where it failed."""
        record, shown = self._record(), 0
        pause = _TOLD_EVERY_SECONDS if show_output else _ASKED_EVERY_SECONDS
        while record["state"] not in _ENDED:
            shown += self._show_after(shown) if show_output else 0
            record = self.environment_client.get(self._path + "/wait", version=record["version"], timeout=pause)
        if show_output:
            self._show_after(shown)
            print("Image build status: %s" % record["state"])
        if record["state"] == "Failed":
            raise _failure(record)
        return self

    def _record(self):
        return self.environment_client.get(self._path)

    def _log_after(self, offset):
        return self.environment_client.read(self._path + "/log", offset=offset)

    def _show_after(self, offset):
        """Print whole lines from there on; the number of bytes that were printed."""
        import sys
        content = self._log_after(offset)
        content = content[:content.rfind(b"\n") + 1]
        sys.stdout.write(content.decode("utf-8", "replace"))
        sys.stdout.flush()
        return len(content)


class DockerImageDetails(dict):
    """The facts of an environment's image, as v1's mapping."""

    @property
    def image_exist(self):
        return self.get("imageExistsInRegistry", False)

    @property
    def registry(self):
        return self.get("dockerImage", {}).get("registry", {}).get("address")

    @property
    def repository(self):
        return self.get("dockerImage", {}).get("name")

    @property
    def image(self):
        return "/".join(part for part in (self.registry, self.repository) if part) or None

    @property
    def dockerfile(self):
        return self.get("ingredients", {}).get("dockerfile")

    @property
    def interpreter_path(self):
        return self.get("pythonEnvironment", {}).get("interpreterPath")

    @property
    def environment_path(self):
        return self.get("pythonEnvironment", {}).get("condaEnvironmentPath")


def _as_v1(image):
    """It has no registry: the image is with the container engine here, under its name alone."""
    if not image:
        return {"imageExistsInRegistry": False}
    python = image.get("python")
    folder = os.path.dirname(os.path.dirname(python)) if python else None
    return {"imageExistsInRegistry": True, "dockerImageId": image.get("id"),
            "dockerImage": {"name": image.get("name"), "registry": {"address": None}},
            "ingredients": {"dockerfile": image.get("dockerfile")},
            "pythonEnvironment": {"interpreterPath": python, "condaEnvironmentPath": folder}}


def _failure(record):
    said = record.get("error") or {}
    facts = {name: value for name, value in said.items() if name not in ("problem", "hint")}
    return translated(errors.EnvironmentFailed(
        said.get("problem") or "The environment could not be built.", hint=said.get("hint") or "", **facts))
