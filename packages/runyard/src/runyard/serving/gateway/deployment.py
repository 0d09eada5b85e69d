"""Steps that prepare a revision: stage its files, then find or build its environment."""

import threading
from asyncio import CancelledError, get_running_loop, shield, to_thread, wait
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from runyard.core.disk import disk_errors_explained
from runyard.core.errors import RunyardError
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.records.web_services import ServiceFailure, ServiceSpec
from runyard.serving.gateway.environment_build import build_environment, environment_cache, find_environment
from runyard.serving.revision import Revision, complete_revision, stage_files
from runyard.serving.service_folder import ServiceFolder
from runyard.serving.service_log import ServiceLog

Step = Callable[[str], None]
"""Called with the name of the step that begins."""
_Result = TypeVar("_Result")


class DeploymentFailed(Exception):
    """A step of a deployment failed; `failure` has the message for the user."""

    def __init__(self, failure: ServiceFailure) -> None:
        super().__init__(failure.problem)
        self.failure = failure


@contextmanager
def failing_at(step: str) -> Iterator[None]:
    """Convert a RunyardError to DeploymentFailed at this step."""
    try:
        yield
    except RunyardError as error:
        raise DeploymentFailed(ServiceFailure(error.problem, error.hint, step)) from error


async def prepare(folder: ServiceFolder, spec: ServiceSpec, log: ServiceLog, begin_step: Step) -> Revision:
    """Stage the files and provide the environment of the spec's revision. What is there already is reused.

    Raises DeploymentFailed.
    """
    begin_step("files")
    with failing_at("files"):
        cancelled = threading.Event()
        await in_thread(_stage, folder, spec, cancelled, cancelled=cancelled)
    begin_step("environment")
    with failing_at("environment"):
        built = await in_thread(find_environment, folder.home, spec)
        if built is None:
            built = await build_environment(folder.home, spec, log)
    with failing_at("files"):
        return await in_thread(_finish, folder, spec, built)


async def hold_environment(home: Path, revision: Revision) -> ExitStack:
    """Protect the revision's environment from pruning until the result is closed.

    Raises DeploymentFailed when it has been pruned already.
    """
    held = ExitStack()
    built = BuiltEnvironment(revision.environment_key, Path(revision.python), "")
    with failing_at("environment"):
        await in_thread(held.enter_context, environment_cache(home).hold(built))
    return held


def _stage(folder: ServiceFolder, spec: ServiceSpec, cancelled: threading.Event) -> None:
    with disk_errors_explained(folder.root):
        stage_files(folder, spec, cancelled)


def _finish(folder: ServiceFolder, spec: ServiceSpec, built: BuiltEnvironment) -> Revision:
    with disk_errors_explained(folder.root):
        return complete_revision(folder, spec, built)


async def in_thread(act: Callable[..., _Result], *args: Any, cancelled: threading.Event | None = None) -> _Result:
    """Run `act` in a thread. On cancellation set `cancelled` and wait for the thread: it may be writing files."""
    task = get_running_loop().create_task(to_thread(act, *args))
    try:
        return await shield(task)
    except CancelledError:
        if cancelled is not None:
            cancelled.set()
        await wait({task})
        task.exception()  # marks it as retrieved: asyncio would log it otherwise
        raise
