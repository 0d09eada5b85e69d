"""Spec of a task's container: command, mounts, labels, and the files that its starter reads."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from runyard.client import certificates_file
from runyard.containers.creating import ContainerSpec, Mount
from runyard.errors import Json
from runyard.model.plan import LaunchPlan
from runyard.node.attempt import AttemptFolder
from runyard.node.beneath import open_to_everybody
from runyard.node.containers.left import labels_of
from runyard.node.outputs import OUTPUTS

INSIDE = Path(__file__).parent / "inside"
_OF_LAUNCHERS = ("rank.json", "hosts", "doors.json", "runyard-rsh")


@dataclass(frozen=True)
class Program:
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
class Files:
    """Files of one container in the task's folder; the container can write there."""

    folder: Path

    @classmethod
    def of(cls, folder: AttemptFolder, container: str) -> "Files":
        return cls(folder.root / "containers" / container)

    @property
    def told(self) -> Path:
        return self.folder / "told.json"

    @property
    def news(self) -> Path:
        return self.folder / "news"


def container_spec(
    folder: AttemptFolder, plan: LaunchPlan, *, name: str, image: str, python: str, mounts: Sequence[Mount], user: str
) -> ContainerSpec:
    return ContainerSpec(
        name=name,
        image=image,
        # Isolated: neither the script's folder nor variables of the image affect the starter.
        command=(python, "-I", "-S", "-E", str(INSIDE / "starter.py"), str(Files.of(folder, name).told)),
        labels=labels_of(folder.home, folder.part),
        mounts=tuple(mounts),
        working_folder="/",
        user="" if plan.container.user else user,
        # It gets the GPUs that the run was given, also where the user's arguments ask for all.
        request=replace(plan.container, wants_gpus=bool(plan.here.gpus)),
        gpus=plan.here.gpus,
    )


def mounts_of(
    folder: AttemptFolder, plan: LaunchPlan, sdk: Path, logs: Sequence[Path], container: str, data: Sequence[Mount]
) -> list[Mount]:
    """Mounts of the container, at the same paths as on the node. Nothing else of the home is visible.

    Of the task's folder only what scripts write is mounted: a later supervisor trusts the rest, such as the plan. Each
    log is a mount of its own, so that a script cannot replace it.
    """
    own = (folder.work, folder.journals, folder.uploads, folder.data, Files.of(folder, container).folder)
    shown = [_as_it_is(place) for place in (*own, *logs) if place.exists()]
    shown += [_as_it_is(sdk, read_only=True), _as_it_is(INSIDE, read_only=True)]
    certificates = certificates_file(folder.home)
    if certificates is not None:
        shown.append(_as_it_is(Path(certificates), read_only=True))
    if plan.node and plan.shares_outputs:
        # The whole folder of node 0: its ./outputs may have become a link, which the engine would follow.
        shown.append(_as_it_is(AttemptFolder(folder.home, plan.attempt_id).work))
    return [*shown, *data]


def mpi_mounts(folder: AttemptFolder, programs: Path, servers: Sequence[str | None]) -> list[Mount]:
    """Mounts for a launcher of ranks: our programs that it runs, their files, and the launch servers of other nodes
    that are sockets on this machine."""
    scratch = folder.scripts / "mpi"
    scratch.mkdir(exist_ok=True)
    told = [file for name in _OF_LAUNCHERS if (file := folder.scripts / name).exists()]
    sockets = [Path(server.removeprefix("unix:")) for server in servers if server and server.startswith("unix:")]
    fixed = [_as_it_is(path, read_only=True) for path in (programs, *told)]
    return [_as_it_is(scratch), *fixed, *map(_as_it_is, sockets)]


def lay_out(files: Files, told: Json) -> None:
    """Write the files that the starter reads."""
    files.folder.mkdir(mode=0o700, parents=True)
    os.mkfifo(files.news, 0o600)
    files.told.touch(0o600)
    files.told.write_text(json.dumps({**told, "news": str(files.news)}), encoding="utf-8")


def open_to_user(folder: AttemptFolder, files: Files, mounts: Sequence[Mount]) -> None:
    """Let another user of the image access what is mounted of the task. Other users of the machine cannot enter the
    home anyway."""
    files.told.chmod(0o644)
    files.news.chmod(0o666)
    for place in (folder.work / OUTPUTS, *(Path(mount.source) for mount in mounts if not mount.is_read_only)):
        if place.is_socket():
            place.chmod(0o666)
        elif place.is_relative_to(folder.scripts) or place.is_relative_to(folder.root):
            open_to_everybody(place)
    for file in (*folder.std.iterdir(), *(folder.scripts / name for name in _OF_LAUNCHERS)):
        if file.exists():
            file.chmod(file.stat().st_mode | (0o044 if file.parent == folder.scripts else 0o666))


def told_of(folder: AttemptFolder, home: Path, programs: Sequence[Program], served: Sequence[str]) -> Json:
    """Content of the starter's file. `served` are mounts that must be visible in the container; `home` is for a user of
    the image who has none."""
    return {
        "work": str(folder.work),
        "home": str(home),
        "shown": {path: os.stat(path).st_dev for path in served},
        "processes": [{**vars(program), "log": str(program.log)} for program in programs],
    }


def inside_gpus(variables: Mapping[str, str], gpus: Sequence[str]) -> dict[str, str]:
    """Renumber CUDA_VISIBLE_DEVICES from 0: the container sees only its own GPUs."""
    name = "CUDA_VISIBLE_DEVICES"
    if not gpus or variables.get(name) != ",".join(gpus) or not all(gpu.isdigit() for gpu in gpus):
        return dict(variables)
    return {**variables, name: ",".join(map(str, range(len(gpus))))}


def _as_it_is(path: Path, *, read_only: bool = False) -> Mount:
    return Mount(str(path), str(path), read_only)
