from typing import Any

from pydantic import Field

from runyard.core.definitions.deployment import DeploymentSpec
from runyard.core.definitions.fields import JsonObject
from runyard.http.models import Body, Entry, Texts


class Inference(Body):
    """A scoring script, as InferenceConfig sends it."""

    entry_script: str = Field(examples=["score.py"])
    """Its path in `files`."""
    files: list[Entry] | None = None
    """Their contents are sent before, as for snapshots."""
    environment: dict[str, Any] | None = None
    """The v1 environment object."""
    description: str | None = None
    source_directory: str | None = None
    """Its path where it was sent from."""


class Submitter(Body):
    """Who deploys, for building the environment: the interpreter, and variables such as proxies and indexes."""

    python: str | None = None
    python_version: str | None = Field(None, examples=["3.11"])
    user: str | None = None
    variables: Texts = Field({})


class Deployment(Body):
    models: list[str] | None = Field(None, examples=[["digits:1"]])
    """As NAME:VERSION, or NAME for the newest."""
    inference: Inference | None = None
    """Null: one model is served by its framework."""
    submitter: Submitter | None = None

    def spec(self, *, type: str | None = None) -> DeploymentSpec:
        """Raises InvalidArgument."""
        return DeploymentSpec.parse(self.given(), type=type)

    def given(self) -> JsonObject:
        return {
            "models": self.models,
            "inference": None if self.inference is None else _given_inference(self.inference),
            "submitter": None if self.submitter is None else _given_submitter(self.submitter),
        }


def _given_inference(given: Inference) -> JsonObject:
    return {
        "entry_script": given.entry_script,
        "files": [[file.path, file.sha256, file.size, file.mode] for file in given.files or ()],
        "environment": given.environment,
        "description": given.description,
        "source_directory": given.source_directory,
    }


def _given_submitter(given: Submitter) -> JsonObject:
    return {
        "python": given.python,
        "python_version": given.python_version,
        "user": given.user,
        "variables": given.variables,
    }
