"""What happens on a node before the script starts: its code, its interpreter, its data."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import IO

from runyard.blobs.files import FileBlobStore
from runyard.environments.uv import UvEnvironments
from runyard.errors import Json, RunyardError
from runyard.model.plan import LaunchPlan
from runyard.node.attempt import AttemptFolder
from runyard.node.code import place_code
from runyard.node.data.asking import ANSWER_SECONDS, ask_for_data
from runyard.node.data.bringing import bring_all
from runyard.node.data.brought import Brought
from runyard.node.data.mount_points import MountPoints
from runyard.node.data.place import Place
from runyard.node.errand import Tell
from runyard.node.service_client import ServiceClient
from runyard.ports.environments import BuiltEnvironment

_LITTLE_CODE_FILES, _LITTLE_CODE_BYTES = 64, 4 << 20
_BUILD_LOG = "20_image_build_log.txt"


@dataclass
class Prepared:
    """What the script is to be started with."""

    python: str
    environment_key: str = ""
    lock: str = ""
    data: Brought = field(default_factory=Brought)

    def to_json(self) -> Json:
        return {**vars(self), "data": self.data.to_json()}

    @classmethod
    def from_json(cls, body: Json) -> "Prepared":
        return cls(**{**body, "data": Brought.from_json(body["data"])})


@dataclass(frozen=True)
class Mounting:
    """What preparing the data needs of the supervisor."""

    has_own_mounts: bool = False
    life: int = -1


def prepared_at_once(folder: AttemptFolder, plan: LaunchPlan) -> Prepared | None:
    """What `prepare` gives, where that takes a moment only: little code, and nothing to build or fetch. Else None."""
    if plan.kind != "run" or plan.data or len(plan.code) > _LITTLE_CODE_FILES:
        return None
    if sum(entry.size for entry in plan.code) > _LITTLE_CODE_BYTES:
        return None
    try:
        found = UvEnvironments(folder.home / "environments", _variables(plan)).find(plan.environment)
        return prepare(folder, plan, Mounting(), lambda news: None) if found is not None else None
    except (RunyardError, OSError):
        return None  # tried again in a child, which tells what is wrong


def prepare(folder: AttemptFolder, plan: LaunchPlan, mounting: Mounting, tell: Tell) -> Prepared:
    """Bring everything into the attempt's folder. Tells of steps and messages. Raises RunyardError with words for
    the user."""
    if plan.kind == "run":
        client = ServiceClient(folder.home, plan.token)
        place_code(plan.code, folder.work, FileBlobStore(folder.home / "blobs"), client)
    built = _environment(folder, plan, lambda step: tell({"step": step}))
    prepared = Prepared(str(built.python), built.key, built.lock)
    if plan.data:
        tell({"step": "data"})
        prepared.data = _data(folder, plan, mounting, tell)
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


def _data(folder: AttemptFolder, plan: LaunchPlan, mounting: Mounting, tell: Tell) -> Brought:
    client = ServiceClient(folder.home, plan.token, timeout_seconds=ANSWER_SECONDS)
    data = ask_for_data(client, plan.attempt_id)
    client.close()
    with _log(folder, plan) as log:
        place = Place(
            folder=folder,
            mounts=MountPoints(folder, are_private=mounting.has_own_mounts),
            life=mounting.life,
            say=partial(print, file=log),
            message=lambda text: tell({"message": text}),
        )
        return bring_all(plan.data, data, place)


def _variables(plan: LaunchPlan) -> dict[str, str]:
    return {**plan.env, "RUNYARD_ATTEMPT": plan.attempt_id}


def _log(folder: AttemptFolder, plan: LaunchPlan) -> IO[str]:
    """Each attempt writes logs of its own: a run's log grows at its end only."""
    file = folder.std / _BUILD_LOG if plan.kind == "prepare" else folder.node_log
    return file.open("a", encoding="utf-8", buffering=1)
