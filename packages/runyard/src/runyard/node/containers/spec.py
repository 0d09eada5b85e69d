"""Spec of a task's container: command, mounts, labels, and the files that its starter reads."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from runyard.client import certificates_file
from runyard.core.errors import Json
from runyard.core.records.launch_plan import LaunchPlan
from runyard.environments.containers.containers import ContainerSpec, Mount
from runyard.node.confined_files import open_to_everybody
from runyard.node.containers.markers import container_labels
from runyard.node.task_folder import OUTPUTS, TaskFolder

INSIDE = Path(__file__).parent / "inside"
_LAUNCHER_FILES = ("rank.json", "hosts", "doors.json", "runyard-rsh")  # names on disk


@dataclass(frozen=True)
class ContainerProgram:
    """A process for the starter to start."""

    name: str
    command: Sequence[str]
    log: Path
    variables: Mapping[str, str]
    in_front: Mapping[str, str] = field(default_factory=dict)
    """Values that are put first in path variables, before those of the image."""
    expands: bool = False
    """Whether `$NAME` in its arguments is filled in, from its environment in the image."""
    files: int | None = None
    """Limit of open files."""


@dataclass(frozen=True)
class StarterFiles:
    """Files of one container in the task's folder; the container can write there."""

    folder: Path

    @classmethod
    def of(cls, folder: TaskFolder, container: str) -> "StarterFiles":
        return cls(folder.root / "containers" / container)

    @property
    def config(self) -> Path:
        return self.folder / "told.json"  # the name on disk

    @property
    def events(self) -> Path:
        """Fifo to which the starter writes its events."""
        return self.folder / "news"  # the name on disk


def container_spec(
    folder: TaskFolder, plan: LaunchPlan, *, name: str, image: str, python: str, mounts: Sequence[Mount], user: str
) -> ContainerSpec:
    return ContainerSpec(
        name=name,
        image=image,
        # Isolated: neither the script's folder nor variables of the image affect the starter.
        command=(python, "-I", "-S", "-E", str(INSIDE / "starter.py"), str(StarterFiles.of(folder, name).config)),
        labels=container_labels(folder.home, folder.part),
        mounts=tuple(mounts),
        working_folder="/",
        user="" if plan.container.user else user,
        # It gets the GPUs that the run was given, also where the user's arguments ask for all.
        request=replace(plan.container, wants_gpus=bool(plan.here.gpus)),
        gpus=plan.here.gpus,
    )


def task_mounts(
    folder: TaskFolder, plan: LaunchPlan, sdk: Path, logs: Sequence[Path], container: str, data: Sequence[Mount]
) -> list[Mount]:
    """Mounts of the container, at the same paths as on the node. Nothing else of the home is visible.

    Of the task's folder only what scripts write is mounted: a later supervisor trusts the rest, such as the plan. Each
    log is a mount of its own, so that a script cannot replace it.
    """
    own = (folder.work, folder.journals, folder.uploads, folder.data, StarterFiles.of(folder, container).folder)
    shown = [_same_path(place) for place in (*own, *logs) if place.exists()]
    shown += [_same_path(sdk, read_only=True), _same_path(INSIDE, read_only=True)]
    certificates = certificates_file(folder.home)
    if certificates is not None:
        shown.append(_same_path(Path(certificates), read_only=True))
    if plan.node and plan.shares_outputs:
        # The whole folder of node 0: its ./outputs may have become a link, which the engine would follow.
        shown.append(_same_path(TaskFolder(folder.home, plan.attempt_id).work))
    return [*shown, *data]


def mpi_mounts(folder: TaskFolder, programs: Path, servers: Sequence[str | None]) -> list[Mount]:
    """Mounts for a launcher of ranks: our programs that it runs, their files, and the launch servers of other nodes
    that are sockets on this machine."""
    scratch = folder.scripts / "mpi"
    scratch.mkdir(exist_ok=True)
    launcher_files = [file for name in _LAUNCHER_FILES if (file := folder.scripts / name).exists()]
    sockets = [Path(server.removeprefix("unix:")) for server in servers if server and server.startswith("unix:")]
    fixed = [_same_path(path, read_only=True) for path in (programs, *launcher_files)]
    return [_same_path(scratch), *fixed, *map(_same_path, sockets)]


def write_starter_files(files: StarterFiles, config: Json) -> None:
    """Write the files that the starter reads."""
    files.folder.mkdir(mode=0o700, parents=True)
    os.mkfifo(files.events, 0o600)
    files.config.touch(0o600)
    files.config.write_text(json.dumps({**config, "news": str(files.events)}), encoding="utf-8")


def open_to_user(folder: TaskFolder, files: StarterFiles, mounts: Sequence[Mount]) -> None:
    """Let another user of the image access what is mounted of the task. Other users of the machine cannot enter the
    home anyway."""
    files.config.chmod(0o644)
    files.events.chmod(0o666)
    for place in (folder.work / OUTPUTS, *(Path(mount.source) for mount in mounts if not mount.is_read_only)):
        if place.is_socket():
            place.chmod(0o666)
        elif place.is_relative_to(folder.scripts) or place.is_relative_to(folder.root):
            open_to_everybody(place)
    for file in (*folder.std.iterdir(), *(folder.scripts / name for name in _LAUNCHER_FILES)):
        if file.exists():
            file.chmod(file.stat().st_mode | (0o044 if file.parent == folder.scripts else 0o666))


def starter_config(folder: TaskFolder, home: Path, programs: Sequence[ContainerProgram], served: Sequence[str]) -> Json:
    """Content of the starter's file. `served` are mounts that must be visible in the container; `home` is for a user of
    the image who has none."""
    return {
        "work": str(folder.work),
        "home": str(home),
        "shown": {path: os.stat(path).st_dev for path in served},
        "processes": [{**vars(program), "log": str(program.log)} for program in programs],
    }


def renumber_gpus(variables: Mapping[str, str], gpus: Sequence[str]) -> dict[str, str]:
    """Renumber CUDA_VISIBLE_DEVICES from 0: the container sees only its own GPUs."""
    name = "CUDA_VISIBLE_DEVICES"
    if not gpus or variables.get(name) != ",".join(gpus) or not all(gpu.isdigit() for gpu in gpus):
        return dict(variables)
    return {**variables, name: ",".join(map(str, range(len(gpus))))}


def _same_path(path: Path, *, read_only: bool = False) -> Mount:
    return Mount(str(path), str(path), read_only)
