"""What the container of a part is made from, and what its starter is told."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runyard.containers.containers import ContainerSpec, Mount
from runyard.errors import Json
from runyard.model.plan import LaunchPlan
from runyard.node.attempt import AttemptFolder
from runyard.node.containers.left import labels_of
from runyard.node.outputs import OUTPUTS
from runyard.node.service_client import certificates_file

INSIDE = Path(__file__).parent / "inside"
_FOR_EVERYBODY = 0o777


@dataclass(frozen=True)
class Program:
    """A process that the starter is to start."""

    name: str
    command: Sequence[str]
    log: Path
    variables: Mapping[str, str]
    in_front: Mapping[str, str] = field(default_factory=dict)
    """What comes first in variables such as PATH, which the image has a value for."""
    expands: bool = False
    """Variables in its arguments are filled in, from those that it has in the image."""
    files: int | None = None
    """How many files it may have open at most."""


@dataclass(frozen=True)
class Files:
    """What lies in the part's folder for one container."""

    told: Path
    news: Path

    @classmethod
    def of(cls, folder: AttemptFolder, container: str) -> "Files":
        return cls(folder.root / f"{container}.json", folder.root / f"{container}.news")


def container_spec(
    folder: AttemptFolder, plan: LaunchPlan, *, name: str, image: str, python: str, mounts: Sequence[Mount], user: str
) -> ContainerSpec:
    return ContainerSpec(
        name=name,
        image=image,
        # Isolated: neither the script's folder nor variables of the image reach the few lines before the script.
        command=(python, "-I", "-S", "-E", str(INSIDE / "starter.py"), str(Files.of(folder, name).told)),
        labels=labels_of(folder.home, folder.part),
        mounts=tuple(mounts),
        working_folder="/",
        user="" if plan.container.user else user,
        wish=plan.container,
        gpus=plan.here.gpus,
    )


def mounts_of(folder: AttemptFolder, plan: LaunchPlan, sdk: Path, data: Sequence[Mount]) -> list[Mount]:
    """Everything has the path that it has on the node; nothing else of the home is there."""
    shown = [_as_it_is(folder.root), _as_it_is(sdk, read_only=True), _as_it_is(INSIDE, read_only=True)]
    certificates = certificates_file(folder.home)
    if certificates is not None:
        shown.append(_as_it_is(Path(certificates), read_only=True))
    if plan.node and plan.shares_outputs:
        shown.append(_as_it_is(AttemptFolder(folder.home, plan.attempt_id).work / OUTPUTS))
    return [*shown, *data]


def mpi_mounts(program_folder: Path, doors: Sequence[str | None]) -> list[Mount]:
    """For a launcher: the files that it has us run, and the doors of other nodes that are sockets on this machine."""
    sockets = [Path(door.removeprefix("unix:")) for door in doors if door and door.startswith("unix:")]
    return [_as_it_is(program_folder, read_only=True), *map(_as_it_is, sockets)]


def lay_out(folder: AttemptFolder, plan: LaunchPlan, files: Files, told: Json) -> None:
    """Write what the starter reads, and open to another user of the image what he needs."""
    os.mkfifo(files.news, 0o600)
    files.told.touch(0o600)
    files.told.write_text(json.dumps({**told, "news": str(files.news)}), encoding="utf-8")
    if plan.container.user:  # The home, which only its owner can enter, keeps the machine's other users out.
        files.told.chmod(0o644)
        for file in (files.news, *folder.std.iterdir()):
            file.chmod(0o666)
        for place in (folder.root, folder.work, folder.work / OUTPUTS, folder.std, folder.journals, folder.uploads):
            place.chmod(_FOR_EVERYBODY)


def told_of(folder: AttemptFolder, programs: Sequence[Program], served: Sequence[str]) -> Json:
    """What the starter is told. Of data that this machine serves it is to see the same file system as we do."""
    return {
        "work": str(folder.work),
        "home": str(folder.root / "home"),
        "shown": {path: os.stat(path).st_dev for path in served},
        "processes": [{**vars(program), "log": str(program.log)} for program in programs],
    }


def inside_gpus(variables: Mapping[str, str], gpus: Sequence[str]) -> dict[str, str]:
    """The variables of a process with its GPUs as they are numbered in the container, which sees no others."""
    name = "CUDA_VISIBLE_DEVICES"
    if not gpus or variables.get(name) != ",".join(gpus) or not all(gpu.isdigit() for gpu in gpus):
        return dict(variables)
    return {**variables, name: ",".join(map(str, range(len(gpus))))}


def _as_it_is(path: Path, *, read_only: bool = False) -> Mount:
    return Mount(str(path), str(path), read_only)
