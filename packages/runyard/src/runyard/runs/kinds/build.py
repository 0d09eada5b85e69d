import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runyard.access.authorization import Access
from runyard.assets.workspaces import Workspaces
from runyard.core.definitions.environment import EnvironmentDefinition
from runyard.core.definitions.fields import JsonValue
from runyard.core.definitions.run import UNKNOWN_SUBMITTER, RunDefinition, Submitter
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.policy import Action
from runyard.core.ports.blobs import LogStore
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import RunStore
from runyard.core.principal import Principal
from runyard.core.records.files import FileEntry
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.runs.kinds.script import ScriptKind
from runyard.runs.scheduling.controller import RunController
from runyard.runs.submit import RunEnvironments

if TYPE_CHECKING:
    from runyard.runs.submit import Submission

BUILD_TYPE = "runyard.build"
BUILD_EXPERIMENT = "prepare_image"
BUILD_LOG = "azureml-logs/20_image_build_log.txt"
ENVIRONMENT_FACTS = "environment"
"""Exit fact of a build: key and image of the environment."""
_STATES = {
    RunStatus.NOT_STARTED: "Queued",
    RunStatus.QUEUED: "Queued",
    RunStatus.COMPLETED: "Succeeded",
    RunStatus.FAILED: "Failed",
    RunStatus.CANCELED: "Failed",
}


@dataclass(frozen=True)
class NewBuild:
    environment: EnvironmentDefinition
    files: Sequence[FileEntry] = ()
    """Files of the build context, if the definition does not name them."""
    submitter: Submitter = UNKNOWN_SUBMITTER
    force: bool = False


@dataclass(frozen=True)
class BuildError:
    cause: str
    problem: str
    hint: str
    said: str = ""  # the name in the wire format


@dataclass(frozen=True)
class NamedEnvironment:
    name: Any
    version: Any


@dataclass(frozen=True)
class BuildRecord:
    """A build as its users see it."""

    id: str
    version: int
    state: str
    """Queued, Running, Succeeded or Failed."""
    error: BuildError | None
    environment: NamedEnvironment
    environment_key: str
    image: Any
    lock: str
    created_at: datetime
    created_by: str


class BuildKind(ScriptKind):
    """A run that ends once its environment is built, where other runs would start."""

    name = "build"
    type = BUILD_TYPE
    title = "build"

    def check(self, who: Principal, workspace: str, submission: "Submission") -> None:
        raise InvalidArgument(
            f"Runs of type {BUILD_TYPE!r} cannot be submitted.", hint="Build an environment by Environment.build()."
        )

    def check_any(self, submission: "Submission") -> None:
        if submission.definition.runyard.is_build:
            raise InvalidArgument(
                "'runyard.build' cannot be given with a run: it is set for builds of environments.",
                hint="Build an environment by Environment.build().",
            )

    def advance(self, run: RunRecord) -> RunRecord | None:
        if run.status is RunStatus.NOT_STARTED and run.definition.runyard.is_forced_build:
            self.tools.controller.launcher.forget_built(run)
        return super().advance(run)

    def prepared(self, run: RunRecord) -> RunRecord | None:
        built = self.tools.controller.launcher.built(run)
        facts = {ENVIRONMENT_FACTS: {"key": built["key"], "image": built["image"]}}
        return self.tools.runs.move(
            run, RunStatus.COMPLETED, message="", exit_facts=facts, environment_lock=built["lock"]
        )


class Builds:
    """Builds environments without running anything in them.

    A build is a run, so it is logged, canceled and recovered after a crash as other runs are.
    """

    def __init__(
        self,
        workspaces: Workspaces,
        runs: RunStore,
        logs: LogStore,
        environments: RunEnvironments,
        controller: RunController,
        clock: Clock,
        access: Access,
    ) -> None:
        self._access = access
        self._workspaces, self._runs, self._logs = workspaces, runs, logs
        self._environments, self._controller, self._clock = environments, controller, clock

    def create(self, who: Principal, workspace: str, new: NewBuild) -> RunRecord:
        """Store and start a build. Raises what submitting a run with that environment raises."""
        self._workspaces.enter(who, Action.BUILD_ENVIRONMENT, workspace)
        definition = RunDefinition.parse(
            {
                "environment": _with_files(new.environment, new.files).raw,
                "target": "local",
                "runyard": {"submitter": new.submitter.raw, "build": {"force": new.force}},
            }
        )
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
                created_by=who.name,
                definition=self._environments.accept(who, workspace, definition),
            )
        )
        self._controller.wake(build_id)
        return created

    def get(self, who: Principal, workspace: str, build_id: str) -> RunRecord:
        """Raises NotFound, also for a run that is not a build."""
        self._access.workspace(who, Action.READ_RUN, workspace)
        try:
            found = self._runs.get(RunId(build_id))
        except NotFound:
            found = None
        if found is None or found.type != BUILD_TYPE or found.workspace != workspace:
            raise NotFound(f"There is no build {build_id!r} in workspace {workspace!r}.")
        return found

    def log(self, who: Principal, workspace: str, build_id: str, offset: int) -> bytes:
        """Build log from byte `offset` on; empty if there is none yet."""
        build = self.get(who, workspace, build_id)
        start = max(0, offset)
        return self._logs.read(build.id, BUILD_LOG, start) if self._logs.size(build.id, BUILD_LOG) > start else b""


def build_record(run: RunRecord) -> BuildRecord:
    facts = (run.exit_facts or {}).get(ENVIRONMENT_FACTS) or {}
    environment = run.definition.environment.raw
    return BuildRecord(
        id=run.id,
        version=run.version,
        state=_STATES.get(run.status, "Running"),
        error=_error(run),
        environment=NamedEnvironment(environment.get("name"), environment.get("version")),
        environment_key=facts.get("key") or "",
        image=facts.get("image"),
        lock=run.environment_lock,
        created_at=run.created_at,
        created_by=run.created_by,
    )


def _error(run: RunRecord) -> BuildError | None:
    if run.status is RunStatus.CANCELED:
        return BuildError("killed", "The build was canceled.", "Build again.")
    if run.error is None:
        return None
    error = run.error["error"]
    facts = error.get("messageParameters") or {}
    return BuildError(facts.get("cause", "unknown"), error["message"], facts.get("hint", ""), facts.get("said", ""))


def _with_files(environment: EnvironmentDefinition, files: Sequence[FileEntry]) -> EnvironmentDefinition:
    context = environment.build_context_fields()
    if not files or context.get("files"):
        return environment
    rows: JsonValue = [[entry.path, entry.sha256, entry.size, entry.mode] for entry in files]
    return environment.with_docker(buildContext={**context, "files": rows})
