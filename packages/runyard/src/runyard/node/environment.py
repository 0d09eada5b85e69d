import hashlib
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import IO

from runyard.blobs.files import FileBlobStore
from runyard.client import ServiceClient, patiently, quoted
from runyard.containers.registries import RegistryCredentials
from runyard.environments.folder import key_of
from runyard.environments.making import Environments
from runyard.environments.programs import Say
from runyard.environments.provisions import Provisions
from runyard.environments.uv import MadeElsewhere
from runyard.errors import EnvironmentFailed, Json, NotFound
from runyard.model.files import FileEntry
from runyard.model.plan import LaunchPlan
from runyard.node.attempt import PART_VARIABLE, AttemptFolder
from runyard.node.code import place_files
from runyard.node.errand import Tell
from runyard.node.service import connect
from runyard.planning.package_settings import settings_from_json
from runyard.ports.environments import BuiltEnvironment, EnvironmentLock
from runyard.run_folders import environments_root

_BUILD_LOG = "20_image_build_log.txt"


def find_environment(folder: AttemptFolder, plan: LaunchPlan) -> BuiltEnvironment | None:
    """Find the run's environment in this node's cache. Quick."""
    return _environments(folder, plan).find(plan.environment)


def ensure_environment(
    folder: AttemptFolder, plan: LaunchPlan, client: ServiceClient, notify: Tell
) -> BuiltEnvironment:
    """Find or build the run's environment in this node's cache. Reports the step "environment" when it is built, with
    the output in the task's log.

    A node that shares no files with the service builds it from the lock and the wheels that the service keeps, if any,
    and uploads its own if not. Raises EnvironmentFailed with a message for the user.
    """
    environments = _environments(folder, plan)
    found = environments.find(plan.environment)
    if found is not None and (plan.shares_files or plan.kind != "prepare"):
        return found
    kept = _ask(plan, client)
    if found is None:
        notify({"step": "environment"})
        with preparation_log(folder, plan) as log:
            found = _make(environments, plan, kept, client, partial(print, file=log))
    made = None if plan.shares_files else environments.lock_of(found)
    if made is not None and _is_news(made, kept):
        _post(plan, found.key, made, client)
    return found


def preparation_log(folder: AttemptFolder, plan: LaunchPlan) -> IO[str]:
    """Open the log of this task's preparation. Each attempt has its own: logs of a run only grow."""
    file = folder.std / _BUILD_LOG if plan.kind == "prepare" else folder.node_log
    return file.open("a", encoding="utf-8", buffering=1)


def _make(
    environments: Environments, plan: LaunchPlan, kept: Json | None, client: ServiceClient, say: Say
) -> BuiltEnvironment:
    elsewhere = None
    if kept is not None:
        say("Another node has made this environment before; the same is made here.")
        elsewhere = MadeElsewhere(kept["python"], kept["lock"], partial(_bring, kept, client, say))
    try:
        return environments.ensure(plan.environment, say, elsewhere)
    except EnvironmentFailed as error:
        if plan.shares_files:
            raise
        where = plan.here.name or plan.here.address
        raise EnvironmentFailed(f"On node {where}: {error.problem}", hint=error.hint, **error.facts) from error


def _ask(plan: LaunchPlan, client: ServiceClient) -> Json | None:
    """Lock and wheels that the service keeps of the environment; None if no node built it, or files are shared."""
    if plan.shares_files or plan.environment.user_managed:
        return None
    try:
        return patiently(lambda: client.get(f"{_address(plan)}?key={key_of(plan.environment)}"))
    except NotFound:
        return None


def _is_news(made: EnvironmentLock, kept: Json | None) -> bool:
    return kept is None or kept["lock"] != made.lock or not made.wheels.keys() <= {key for key, _, _ in kept["wheels"]}


def _bring(kept: Json, client: ServiceClient, say: Say, key: str, into: Path) -> Path | None:
    for known, name, sha256 in kept["wheels"]:
        if known == key:
            wheel = into / Path(name).name
            patiently(partial(client.download, f"/blobs/{quoted(sha256)}", wheel))
            if _sha256(wheel) != sha256:
                raise EnvironmentFailed(f"The wheel {name} came damaged from the service.", hint="Submit again.")
            say(f"{name} was compiled by another node; it is taken from the service.")
            return wheel
    return None


def _post(plan: LaunchPlan, key: str, made: EnvironmentLock, client: ServiceClient) -> None:
    wheels = [(wheel_key, path, _sha256(path)) for wheel_key, path in made.wheels.items()]
    for _, path, sha256 in wheels:
        patiently(partial(_send, client, sha256, path))
    rows = [[wheel_key, path.name, sha256] for wheel_key, path, sha256 in wheels]
    body = {"key": key, "python": made.python, "lock": made.lock, "wheels": rows}
    patiently(lambda: client.post(_address(plan), body))


def _send(client: ServiceClient, sha256: str, path: Path) -> None:
    if client.post("/blobs/missing", {"sha256": [sha256]})["missing"]:
        with path.open("rb") as file:
            client.upload_open(f"/blobs/{sha256}", file, path.stat().st_size)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _address(plan: LaunchPlan) -> str:
    return f"/attempts/{quoted(plan.attempt_id)}/environment"


def _environments(folder: AttemptFolder, plan: LaunchPlan) -> Environments:
    """Builds run with the task's variable, so that a supervisor finds what a killed one was building."""
    variables = {**plan.env, "RUNYARD_ATTEMPT": plan.attempt_id, PART_VARIABLE: plan.part}
    provisions = partial(_ask_for_provisions, folder, plan)
    return Environments(environments_root(folder.home), variables, provisions, partial(_place_context, folder, plan))


def _ask_for_provisions(folder: AttemptFolder, plan: LaunchPlan) -> Provisions:
    """Package settings of the workspace. Kept in memory only: they hold passwords."""
    with closing(connect(folder.home, plan.token)) as client:
        address = f"/attempts/{quoted(plan.attempt_id)}/packages"
        found = patiently(partial(client.get, address))
    logins = {
        registry: RegistryCredentials(login["username"], login["password"], registry)
        for registry, login in found["registries"].items()
    }
    return Provisions(settings_from_json(found["settings"]), logins, found.get("addresses") or {})


def _place_context(folder: AttemptFolder, plan: LaunchPlan, files: Sequence[FileEntry], into: Path) -> None:
    blobs = FileBlobStore(folder.home / "blobs") if plan.shares_files else None
    place_files(files, into, blobs, partial(connect, folder.home, plan.token))
