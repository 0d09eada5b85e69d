import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runyard.errors import NotFound
from runyard.model.files import FileEntry
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock
from runyard.ports.controller import RunMover
from runyard.ports.stores import RunStore
from runyard.services.run_environments import RunEnvironments
from runyard.services.workspaces import Workspaces

BUILD_TYPE = "runyard.build"
BUILD_EXPERIMENT = "prepare_image"
BUILD_LOG = "azureml-logs/20_image_build_log.txt"
ENVIRONMENT_FACTS = "environment"
"""Of the exit facts of a build: the key and image of what it built."""
_STATES = {
    RunStatus.NOT_STARTED: "Queued",
    RunStatus.QUEUED: "Queued",
    RunStatus.COMPLETED: "Succeeded",
    RunStatus.FAILED: "Failed",
    RunStatus.CANCELED: "Failed",
}


@dataclass(frozen=True)
class NewBuild:
    environment: Mapping[str, Any]
    files: Sequence[FileEntry] = ()
    """Of its build context, where that does not name them itself."""
    submitter: Mapping[str, Any] = field(default_factory=dict)
    force: bool = False


class Builds:
    """Environments made without running anything in them. A build is a run that ends where others would start, so it
    is logged, canceled and carried on after a crash as they are."""

    def __init__(
        self,
        workspaces: Workspaces,
        runs: RunStore,
        logs: LogStore,
        environments: RunEnvironments,
        mover: RunMover,
        clock: Clock,
    ) -> None:
        self._workspaces, self._runs, self._logs = workspaces, runs, logs
        self._environments, self._mover, self._clock = environments, mover, clock

    def create(self, workspace: str, new: NewBuild) -> RunRecord:
        """Raises what submitting a run with that environment would."""
        self._workspaces.get(workspace)
        definition = {
            "environment": _with_files(new.environment, new.files),
            "target": "local",
            "runyard": {"submitter": dict(new.submitter), "build": {"force": new.force}},
        }
        build_id = RunId(f"build_{uuid.uuid4().hex[:24]}")
        created = self._runs.create(
            RunRecord(
                id=build_id,
                workspace=workspace,
                experiment=BUILD_EXPERIMENT,
                number=0,
                status=RunStatus.NOT_STARTED,
                created_at=self._clock.now(),
                type=BUILD_TYPE,
                target="local",
                root_id=build_id,
                definition=self._environments.taken(workspace, definition),
            )
        )
        self._mover.wake(build_id)
        return created

    def get(self, workspace: str, build_id: str) -> RunRecord:
        """Raises NotFound, also for a run that is no build."""
        try:
            found = self._runs.get(RunId(build_id))
        except NotFound:
            found = None
        if found is None or found.type != BUILD_TYPE or found.workspace != workspace:
            raise NotFound(f"There is no build {build_id!r} in workspace {workspace!r}.")
        return found

    def log(self, workspace: str, build_id: str, offset: int) -> bytes:
        """From that byte on; empty before there is one."""
        build = self.get(workspace, build_id)
        return self._logs.read(build.id, BUILD_LOG, offset) if self._logs.size(build.id, BUILD_LOG) > offset else b""


def build_record(run: RunRecord) -> dict[str, Any]:
    """A build as the wire shows it."""
    facts = (run.exit_facts or {}).get(ENVIRONMENT_FACTS) or {}
    return {
        "id": run.id,
        "version": run.version,
        "state": _STATES.get(run.status, "Running"),
        "error": _error(run),
        "environment": {name: run.definition["environment"].get(name) for name in ("name", "version")},
        "environment_key": facts.get("key") or "",
        "image": facts.get("image"),
        "lock": run.environment_lock,
        "created_at": run.created_at,
    }


def _error(run: RunRecord) -> dict[str, Any] | None:
    if run.status is RunStatus.CANCELED:
        return {"cause": "killed", "problem": "The build was canceled.", "hint": "Build again."}
    if run.error is None:
        return None
    error = run.error["error"]
    told = error.get("messageParameters") or {}
    return {
        "cause": told.get("cause", "unknown"),
        "problem": error["message"],
        "hint": told.get("hint", ""),
        "said": told.get("said", ""),
    }


def _with_files(environment: Mapping[str, Any], files: Sequence[FileEntry]) -> Mapping[str, Any]:
    if not files:
        return environment
    docker = environment.get("docker") or {}
    context = docker.get("buildContext") or {}
    rows = [[entry.path, entry.sha256, entry.size, entry.mode] for entry in files]
    return {**environment, "docker": {**docker, "buildContext": {**context, "files": context.get("files") or rows}}}
