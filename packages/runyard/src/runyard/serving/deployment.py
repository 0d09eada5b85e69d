"""From a spec to workers that are ready: the steps of one deployment, each with its own words when it fails."""

import threading
from asyncio import CancelledError, get_running_loop, shield, to_thread, wait
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from runyard.blobs.disk import explained
from runyard.errors import RunyardError
from runyard.model.web_services import ServiceSpec, ServiceTrouble
from runyard.ports.environments import BuiltEnvironment
from runyard.serving.building import build_environment, environments, find_environment
from runyard.serving.folder import ServiceFolder
from runyard.serving.log_file import ServiceLog
from runyard.serving.revision import Revision, finish, lay_files

Step = Callable[[str], None]
_Result = TypeVar("_Result")


class DeploymentFailed(Exception):
    """`trouble` has the words for the user."""

    def __init__(self, trouble: ServiceTrouble) -> None:
        super().__init__(trouble.problem)
        self.trouble = trouble


@contextmanager
def failing_at(step: str) -> Iterator[None]:
    """Errors of ours become DeploymentFailed with this step."""
    try:
        yield
    except RunyardError as error:
        raise DeploymentFailed(ServiceTrouble(error.problem, error.hint, step)) from error


async def prepare(folder: ServiceFolder, spec: ServiceSpec, log: ServiceLog, tell: Step) -> Revision:
    """Its files, then its environment. What was prepared before is taken as it is. Raises DeploymentFailed."""
    tell("files")
    with failing_at("files"):
        given_up = threading.Event()
        await in_thread(_lay, folder, spec, given_up, given_up=given_up)
    tell("environment")
    with failing_at("environment"):
        built = await in_thread(find_environment, folder.home, spec)
        if built is None:
            built = await build_environment(folder.home, spec, log)
    with failing_at("files"):
        return await in_thread(_finish, folder, spec, built)


async def hold_environment(home: Path, revision: Revision) -> ExitStack:
    """Keeps it from being pruned until that is closed. Raises DeploymentFailed when that has happened already."""
    held = ExitStack()
    built = BuiltEnvironment(revision.environment_key, Path(revision.python), "")
    with failing_at("environment"):
        await in_thread(held.enter_context, environments(home).hold(built))
    return held


def _lay(folder: ServiceFolder, spec: ServiceSpec, given_up: threading.Event) -> None:
    with explained(folder.root):
        lay_files(folder, spec, given_up)


def _finish(folder: ServiceFolder, spec: ServiceSpec, built: BuiltEnvironment) -> Revision:
    with explained(folder.root):
        return finish(folder, spec, built)


async def in_thread(act: Callable[..., _Result], *given: Any, given_up: threading.Event | None = None) -> _Result:
    """Its result. When this is cancelled, the thread is told by `given_up` and waited for: it may be writing files."""
    task = get_running_loop().create_task(to_thread(act, *given))
    try:
        return await shield(task)
    except CancelledError:
        if given_up is not None:
            given_up.set()
        await wait({task})
        task.exception()  # nobody asks for it any more
        raise
