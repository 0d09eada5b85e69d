"""Prepares a node for the script: code, environment and data. The environment comes from the node's own cache, from a
lock and wheels that another node uploaded, or is built."""

from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from runyard.blobs.files import FileBlobStore
from runyard.client import ServiceClient, patiently, quoted
from runyard.errors import Json, RunyardError
from runyard.model.files import FileEntry
from runyard.model.plan import LaunchPlan
from runyard.node.attempt import AttemptFolder
from runyard.node.code import place_files
from runyard.node.data.asking import ANSWER_SECONDS, ask_for_data
from runyard.node.data.bringing import bring_all
from runyard.node.data.brought import Brought
from runyard.node.data.engine_mounts import EngineMounts
from runyard.node.data.mount_points import MountPoints
from runyard.node.data.place import Place
from runyard.node.environment import ensure_environment, find_environment, preparation_log
from runyard.node.errand import Tell
from runyard.node.outputs import shows_outputs_of_another
from runyard.node.service import connect

_LITTLE_CODE_FILES, _LITTLE_CODE_BYTES = 64, 4 << 20


@dataclass
class Prepared:
    """What preparation gives the script."""

    python: str
    environment_key: str = ""
    lock: str = ""
    path_variables: dict[str, str] = field(default_factory=dict)
    """Folders to put first in variables such as LD_LIBRARY_PATH."""
    data: Brought = field(default_factory=Brought)
    image: str = ""
    """Container image that has `python`; "" when it is on this machine."""
    warnings: list[str] = field(default_factory=list)
    """Warnings about the environment, for the run."""

    def to_json(self) -> Json:
        return {**vars(self), "data": self.data.to_json()}

    @classmethod
    def from_json(cls, body: Json) -> "Prepared":
        return cls(**{**body, "data": Brought.from_json(body["data"])})


@dataclass(frozen=True)
class Mounting:
    """What the supervisor gives to the staging of data."""

    has_own_mounts: bool = False
    life: int = -1


def prepared_at_once(folder: AttemptFolder, plan: LaunchPlan) -> Prepared | None:
    """Do what `prepare` does if it is quick: little code, and nothing to build or download. Else None."""
    if plan.kind != "run" or plan.data or plan.restores_outputs or not plan.shares_files:
        return None
    if len(plan.code) > _LITTLE_CODE_FILES or sum(entry.size for entry in plan.code) > _LITTLE_CODE_BYTES:
        return None
    try:
        found = find_environment(folder, plan)
        return prepare(folder, plan, Mounting(), lambda news: None) if found is not None else None
    except (RunyardError, OSError):
        return None  # tried again in a child, which reports the error


def prepare(folder: AttemptFolder, plan: LaunchPlan, mounting: Mounting, notify: Tell) -> Prepared:
    """Put code, environment and data in place. Sends steps and messages to `notify`. Raises RunyardError with a message
    for the user."""
    with closing(connect(folder.home, plan.token)) as client:
        if plan.kind == "run":
            _place_files(folder, plan, client)
        built = ensure_environment(folder, plan, client, notify)
    prepared = Prepared(str(built.python), built.key, built.lock, dict(built.path_variables), image=built.image)
    prepared.warnings = list(built.warnings)
    if plan.data:
        notify({"step": "data"})
        prepared.data = _data(folder, plan, mounting, notify, in_image=bool(built.image))
    return prepared


def _place_files(folder: AttemptFolder, plan: LaunchPlan, client: ServiceClient) -> None:
    blobs = FileBlobStore(folder.home / "blobs") if plan.shares_files else None
    fetch = partial(connect, folder.home, plan.token)
    place_files(plan.code, folder.work, blobs, fetch)
    if plan.restores_outputs and not shows_outputs_of_another(folder):
        address = f"/runs/{quoted(plan.run_id)}/files?prefix=outputs/"
        found = patiently(partial(client.get, address))["files"]
        kept = [FileEntry(file["path"], file["sha256"], file["size"]) for file in found if file["sha256"]]
        place_files(kept, folder.work, blobs, fetch)


def _data(folder: AttemptFolder, plan: LaunchPlan, mounting: Mounting, notify: Tell, *, in_image: bool) -> Brought:
    client = connect(folder.home, plan.token, silence_seconds=ANSWER_SECONDS)
    data = ask_for_data(client, folder.home, plan.attempt_id, shares_files=plan.shares_files)
    client.close()
    mounts = MountPoints(folder, are_private=mounting.has_own_mounts)
    if in_image:
        mounts = EngineMounts(folder, plan.container.user)
    with preparation_log(folder, plan) as log:
        place = Place(
            folder=folder,
            mounts=mounts,
            life=mounting.life,
            say=partial(print, file=log),
            message=lambda text: notify({"message": text}),
        )
        return bring_all(plan.data, data, place)
