"""Prepares a node for the script: code, environment and data. The environment comes from the node's own cache, from a
lock and wheels that another node uploaded, or is built.
"""

import hashlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

from runyard.client import ServiceClient, quoted, retry_while_unavailable
from runyard.core.errors import EnvironmentFailed, Json, NotFound, RunyardError
from runyard.core.ports.environments import BuiltEnvironment, EnvironmentLock
from runyard.core.records.files import FileEntry
from runyard.core.records.launch_plan import LaunchPlan
from runyard.core.run_folders import environments_root
from runyard.environments.builder import LocalEnvironments
from runyard.environments.containers.registries import RegistryCredentials
from runyard.environments.folder import environment_key
from runyard.environments.package_sources import BuildSettings
from runyard.environments.planning.package_settings import settings_from_json
from runyard.environments.programs import LogLine
from runyard.environments.uv_environments import PrebuiltEnvironment
from runyard.node.data.mount_points import EngineMountPoints, MountPoints
from runyard.node.data.staged_data import StagedData
from runyard.node.data.staging import stage_all
from runyard.node.data.staging_context import StagingContext
from runyard.node.data.store_access import ANSWER_SECONDS, request_data
from runyard.node.processes.forked_task import Notify
from runyard.node.service_client import connect_to_service
from runyard.node.snapshot import place_files
from runyard.node.task_folder import TASK_VARIABLE, TaskFolder, has_shared_outputs
from runyard.storage.blobs.store import FileBlobStore

_LITTLE_CODE_FILES, _LITTLE_CODE_BYTES = 64, 4 << 20


@dataclass
class PreparedTask:
    """What preparation gives the script."""

    python: str
    environment_key: str = ""
    lock: str = ""
    path_variables: dict[str, str] = field(default_factory=dict)
    """Folders to put first in variables such as LD_LIBRARY_PATH."""
    data: StagedData = field(default_factory=StagedData)
    image: str = ""
    """Container image that has `python`; "" when it is on this machine."""
    warnings: list[str] = field(default_factory=list)
    """Warnings about the environment, for the run."""

    def to_json(self) -> Json:
        return {**vars(self), "data": self.data.to_json()}

    @classmethod
    def from_json(cls, body: Json) -> "PreparedTask":
        return cls(**{**body, "data": StagedData.from_json(body["data"])})


@dataclass(frozen=True)
class MountAccess:
    """What the supervisor gives to the staging of data."""

    has_own_mounts: bool = False
    life: int = -1


def prepare_if_quick(folder: TaskFolder, plan: LaunchPlan) -> PreparedTask | None:
    """Do what `prepare` does if it is quick: little code, and nothing to build or download. Else None."""
    if plan.kind != "run" or plan.data or plan.restores_outputs or not plan.shares_files:
        return None
    if len(plan.code) > _LITTLE_CODE_FILES or sum(entry.size for entry in plan.code) > _LITTLE_CODE_BYTES:
        return None
    try:
        found = find_environment(folder, plan)
        return prepare(folder, plan, MountAccess(), lambda message: None) if found is not None else None
    except (RunyardError, OSError):
        return None  # tried again in a child, which reports the error


def prepare(folder: TaskFolder, plan: LaunchPlan, mounting: MountAccess, notify: Notify) -> PreparedTask:
    """Put code, environment and data in place. Sends steps and messages to `notify`. Raises RunyardError with a message
    for the user."""
    with closing(connect_to_service(folder.home, plan.token)) as client:
        if plan.kind == "run":
            _place_files(folder, plan, client)
        built = ensure_environment(folder, plan, client, notify)
    prepared = PreparedTask(str(built.python), built.key, built.lock, dict(built.path_variables), image=built.image)
    prepared.warnings = list(built.warnings)
    if plan.data:
        notify({"step": "data"})
        prepared.data = _stage_data(folder, plan, mounting, notify, in_image=bool(built.image))
    return prepared


def _place_files(folder: TaskFolder, plan: LaunchPlan, client: ServiceClient) -> None:
    blobs = FileBlobStore(folder.home / "blobs") if plan.shares_files else None
    fetch = partial(connect_to_service, folder.home, plan.token)
    place_files(plan.code, folder.work, blobs, fetch)
    if plan.restores_outputs and not has_shared_outputs(folder):
        address = f"/runs/{quoted(plan.run_id)}/files?prefix=outputs/"
        found = retry_while_unavailable(partial(client.get, address))["files"]
        kept = [FileEntry(file["path"], file["sha256"], file["size"]) for file in found if file["sha256"]]
        place_files(kept, folder.work, blobs, fetch)


def _stage_data(
    folder: TaskFolder, plan: LaunchPlan, mounting: MountAccess, notify: Notify, *, in_image: bool
) -> StagedData:
    client = connect_to_service(folder.home, plan.token, silence_seconds=ANSWER_SECONDS)
    data = request_data(client, folder.home, plan.attempt_id, shares_files=plan.shares_files)
    client.close()
    mounts = MountPoints(folder, are_private=mounting.has_own_mounts)
    if in_image:
        mounts = EngineMountPoints(folder, plan.container.user)
    with preparation_log(folder, plan) as log:
        place = StagingContext(
            folder=folder,
            mounts=mounts,
            life=mounting.life,
            log_line=partial(print, file=log),
            message=lambda text: notify({"message": text}),
        )
        return stage_all(plan.data, data, place)


_BUILD_LOG = "20_image_build_log.txt"


def find_environment(folder: TaskFolder, plan: LaunchPlan) -> BuiltEnvironment | None:
    """Find the run's environment in this node's cache. Quick."""
    return _environments(folder, plan).find(plan.environment)


def ensure_environment(folder: TaskFolder, plan: LaunchPlan, client: ServiceClient, notify: Notify) -> BuiltEnvironment:
    """Find or build the run's environment in this node's cache. Reports the step "environment" when it is built, with
    the output in the task's log.

    A node that shares no files with the service builds it from the lock and the wheels that the service keeps, if any,
    and uploads its own if not. Raises EnvironmentFailed with a message for the user.
    """
    environments = _environments(folder, plan)
    found = environments.find(plan.environment)
    if found is not None and (plan.shares_files or plan.kind != "prepare"):
        return found
    kept = _find_kept_environment(plan, client)
    if found is None:
        notify({"step": "environment"})
        with preparation_log(folder, plan) as log:
            found = _build_environment(environments, plan, kept, client, partial(print, file=log))
    made = None if plan.shares_files else environments.lock_of(found)
    if made is not None and _is_new_lock(made, kept):
        _upload_lock(plan, found.key, made, client)
    return found


def preparation_log(folder: TaskFolder, plan: LaunchPlan) -> IO[str]:
    """Open the log of this task's preparation. Each attempt has its own: logs of a run only grow."""
    file = folder.std / _BUILD_LOG if plan.kind == "prepare" else folder.node_log
    return file.open("a", encoding="utf-8", buffering=1)


def _build_environment(
    environments: LocalEnvironments, plan: LaunchPlan, kept: Json | None, client: ServiceClient, log_line: LogLine
) -> BuiltEnvironment:
    elsewhere = None
    if kept is not None:
        log_line("Another node has made this environment before; the same is made here.")
        elsewhere = PrebuiltEnvironment(kept["python"], kept["lock"], partial(_download_wheel, kept, client, log_line))
    try:
        return environments.ensure(plan.environment, log_line, elsewhere)
    except EnvironmentFailed as error:
        if plan.shares_files:
            raise
        where = plan.here.name or plan.here.address
        raise EnvironmentFailed(f"On node {where}: {error.problem}", hint=error.hint, **error.facts) from error


def _find_kept_environment(plan: LaunchPlan, client: ServiceClient) -> Json | None:
    """Lock and wheels that the service keeps of the environment; None if no node built it, or files are shared."""
    if plan.shares_files or plan.environment.user_managed:
        return None
    try:
        return retry_while_unavailable(
            lambda: client.get(f"{_environment_address(plan)}?key={environment_key(plan.environment)}")
        )
    except NotFound:
        return None


def _is_new_lock(made: EnvironmentLock, kept: Json | None) -> bool:
    return kept is None or kept["lock"] != made.lock or not made.wheels.keys() <= {key for key, _, _ in kept["wheels"]}


def _download_wheel(kept: Json, client: ServiceClient, log_line: LogLine, key: str, into: Path) -> Path | None:
    for known, name, sha256 in kept["wheels"]:
        if known == key:
            wheel = into / Path(name).name
            retry_while_unavailable(partial(client.download, f"/blobs/{quoted(sha256)}", wheel))
            if _sha256(wheel) != sha256:
                raise EnvironmentFailed(f"The wheel {name} came damaged from the service.", hint="Submit again.")
            log_line(f"{name} was compiled by another node; it is taken from the service.")
            return wheel
    return None


def _upload_lock(plan: LaunchPlan, key: str, made: EnvironmentLock, client: ServiceClient) -> None:
    wheels = [(wheel_key, path, _sha256(path)) for wheel_key, path in made.wheels.items()]
    for _, path, sha256 in wheels:
        retry_while_unavailable(partial(_upload_wheel, client, sha256, path))
    rows = [[wheel_key, path.name, sha256] for wheel_key, path, sha256 in wheels]
    body = {"key": key, "python": made.python, "lock": made.lock, "wheels": rows}
    retry_while_unavailable(lambda: client.post(_environment_address(plan), body))


def _upload_wheel(client: ServiceClient, sha256: str, path: Path) -> None:
    if client.post("/blobs/missing", {"sha256": [sha256]})["missing"]:
        with path.open("rb") as file:
            client.upload_open(f"/blobs/{sha256}", file, path.stat().st_size)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _environment_address(plan: LaunchPlan) -> str:
    return f"/attempts/{quoted(plan.attempt_id)}/environment"


def _environments(folder: TaskFolder, plan: LaunchPlan) -> LocalEnvironments:
    """Builds run with the task's variable, so that a supervisor finds what a killed one was building."""
    variables = {**plan.env, "RUNYARD_ATTEMPT": plan.attempt_id, TASK_VARIABLE: plan.part}
    provisions = partial(_ask_for_provisions, folder, plan)
    return LocalEnvironments(
        environments_root(folder.home), variables, provisions, partial(_place_context, folder, plan)
    )


def _ask_for_provisions(folder: TaskFolder, plan: LaunchPlan) -> BuildSettings:
    """Package settings of the workspace. Kept in memory only: they hold passwords."""
    with closing(connect_to_service(folder.home, plan.token)) as client:
        address = f"/attempts/{quoted(plan.attempt_id)}/packages"
        found = retry_while_unavailable(partial(client.get, address))
    logins = {
        registry: RegistryCredentials(login["username"], login["password"], registry)
        for registry, login in found["registries"].items()
    }
    return BuildSettings(settings_from_json(found["settings"]), logins, found.get("addresses") or {})


def _place_context(folder: TaskFolder, plan: LaunchPlan, files: Sequence[FileEntry], into: Path) -> None:
    blobs = FileBlobStore(folder.home / "blobs") if plan.shares_files else None
    place_files(files, into, blobs, partial(connect_to_service, folder.home, plan.token))
