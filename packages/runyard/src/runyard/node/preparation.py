"""What happens on a node before the script starts: its code, its interpreter, its data.

It all runs in a child of the supervisor, which can therefore go on listening, and end it at any moment.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

from runyard.blobs.files import FileBlobStore
from runyard.environments.uv import UvEnvironments
from runyard.errors import Json, RunyardError
from runyard.model.plan import LaunchPlan
from runyard.node.attempt import AttemptFolder
from runyard.node.code import place_code
from runyard.node.data import DataCache, bring
from runyard.node.processes import die_with_parent
from runyard.node.service_client import ServiceClient
from runyard.ports.environments import BuiltEnvironment

_LITTLE_CODE_FILES, _LITTLE_CODE_BYTES = 64, 4 << 20
_BUILD_LOG, _NODE_LOG = "20_image_build_log.txt", "65_job_prep.txt"


@dataclass
class Prepared:
    """What the script is to be started with."""

    python: str
    environment_key: str = ""
    lock: str = ""
    data: dict[str, str] = field(default_factory=dict)


class Preparation:
    """The child and what it has told so far. `fileno` is readable when there is news for `read`."""

    step: str
    done: Prepared | None
    error: Json | None

    def __init__(
        self, folder: AttemptFolder, plan: LaunchPlan, *, kept_out: int, at_step: Callable[[str], None]
    ) -> None:
        """`kept_out` is a descriptor the child must not hold: the attempt's lock."""
        self.step, self.done, self.error = "code", None, None
        self._at_step, self._unread = at_step, b""
        self.is_over = False
        self._pipe, write_end = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(kept_out)
            _be_the_child(folder, plan, write_end, parent)
        os.close(write_end)
        os.set_blocking(self._pipe, False)

    def fileno(self) -> int:
        return self._pipe

    def read(self) -> None:
        """Take in the news."""
        try:
            while piece := os.read(self._pipe, 1 << 16):
                self._unread += piece
        except BlockingIOError:
            pass
        else:
            self.is_over = True
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def close(self) -> None:
        os.close(self._pipe)

    def _take(self, news: Json) -> None:
        if "step" in news:
            self.step = news["step"]
            self._at_step(self.step)
        self.error = news.get("error", self.error)
        if "done" in news:
            self.done = Prepared(**news["done"])


def _be_the_child(folder: AttemptFolder, plan: LaunchPlan, pipe: int, parent: int) -> None:
    die_with_parent(parent)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with os.fdopen(pipe, "w", encoding="utf-8") as news:
        try:
            prepared = prepare(folder, plan, lambda step: _tell(news, {"step": step}))
            _tell(news, {"done": vars(prepared)})
        except RunyardError as e:
            _tell(news, {"error": {"code": "UserError", "message": str(e)}})
        except BaseException as e:  # the supervisor must hear of everything
            traceback.print_exc(file=sys.stderr)
            _tell(news, {"error": {"code": "ServiceError", "message": f"{type(e).__name__}: {e}"}})
        sys.stderr.flush()
    os._exit(0)


def _tell(news: IO[str], body: Json) -> None:
    news.write(json.dumps(body) + "\n")
    news.flush()


def prepared_at_once(folder: AttemptFolder, plan: LaunchPlan) -> Prepared | None:
    """What `prepare` gives, where that takes a moment only: little code, and nothing to build or fetch. Else None."""
    if plan.kind != "run" or plan.data or len(plan.code) > _LITTLE_CODE_FILES:
        return None
    if sum(entry.size for entry in plan.code) > _LITTLE_CODE_BYTES:
        return None
    try:
        found = UvEnvironments(folder.home / "environments", _variables(plan)).find(plan.environment)
        return prepare(folder, plan, lambda step: None) if found is not None else None
    except (RunyardError, OSError):
        return None  # tried again in a child, which tells what is wrong


def prepare(folder: AttemptFolder, plan: LaunchPlan, at_step: Callable[[str], None]) -> Prepared:
    """Bring everything into the attempt's folder. Raises RunyardError with words for the user."""
    if plan.kind == "run":
        client = ServiceClient(folder.home, plan.token)
        place_code(plan.code, folder.work, FileBlobStore(folder.home / "blobs"), client)
    built = _environment(folder, plan, at_step)
    prepared = Prepared(str(built.python), built.key, built.lock)
    if plan.data:
        at_step("data")
        prepared.data = _data(folder, plan)
    return prepared


def _environment(folder: AttemptFolder, plan: LaunchPlan, at_step: Callable[[str], None]) -> BuiltEnvironment:
    spec = plan.environment
    environments = UvEnvironments(folder.home / "environments", _variables(plan))
    found = environments.find(spec)
    if found is not None:
        return found
    at_step("environment")
    with _log(folder, plan) as log:
        return environments.ensure(spec, lambda line: print(line, file=log))


def _data(folder: AttemptFolder, plan: LaunchPlan) -> dict[str, str]:
    cache = DataCache(folder.home / "data-cache")
    with _log(folder, plan) as log:
        return {
            item.name: str(bring(item, folder.root, cache, _variables(plan), lambda line: print(line, file=log)))
            for item in plan.data
        }


def _variables(plan: LaunchPlan) -> dict[str, str]:
    return {**plan.env, "RUNYARD_ATTEMPT": plan.attempt_id}


def _log(folder: AttemptFolder, plan: LaunchPlan) -> IO[str]:
    """Each attempt writes logs of its own: a run's log grows at its end only."""
    name = _BUILD_LOG if plan.kind == "prepare" else _NODE_LOG
    return (folder.std / name).open("a", encoding="utf-8", buffering=1)
