"""Compare what the product says of each run with what the script itself noted. Only exact equality is good."""

import errno
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from azureml.core import Run, Workspace
from tests.faults.yard import ENDED

NO_SPACE = re.compile(r"no space left on (?:device|the node's disk)|disk that the script writes to was full", re.I)
ABANDONED = "ended without run.complete()"
LOST = re.compile(r"(\d+) logged points were lost")


@dataclass
class Notes:
    """What a script noted, in order."""

    points: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    pid: int = 0
    is_interactive: bool = False
    completes: bool = False
    ends: list[int] = field(default_factory=list)
    raised: str = ""
    """Type and text of what ended the script, if it could not go on."""
    is_full: bool = False
    """It was a full disk that `raised` tells of."""
    starts: int = 0

    @classmethod
    def read(cls, file: Path) -> "Notes":
        notes = cls()
        for line in file.read_text().splitlines() if file.exists() else ():
            word, _, value = line.partition(" ")
            if word in ("pid", "interactive"):
                notes.starts += 1
                notes.pid, notes.is_interactive = int(value), word == "interactive"
            elif word == "point":
                notes.points.append(int(value))
            elif word == "line":
                notes.lines.append(int(value))
            elif word == "completing":
                notes.completes = True
            elif word == "raised":
                number, _, notes.raised = value.partition(" ")
                notes.is_full = int(number) == errno.ENOSPC or bool(NO_SPACE.search(value))
            elif word == "end":
                notes.ends.append(int(value))
        return notes


@dataclass
class Judgement:
    runs: int = 0
    points: int = 0
    lines: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def judge(notes_folder: Path, killed: set[int]) -> Judgement:
    """Judge every run of the workspace and every run that a client was told of."""
    made = Judgement()
    workspace = Workspace.get("campaign")
    listed = {
        run.id: run
        for experiment in workspace.experiments.values()
        for run in experiment.get_runs(include_children=True)
    }
    for file in sorted(notes_folder.glob("client-*")):
        for line in file.read_text().splitlines():
            word, _, rest = line.partition(" ")
            if word == "submitted" and rest.split()[0] not in listed:
                made.faults.append(f"{rest}: submitted, and not there")
    for file in sorted(notes_folder.iterdir()):
        is_of_a_run = file.name not in ("enough", "workers.pids") and not file.name.startswith("client-")
        if is_of_a_run and file.name not in listed:
            made.faults.append(f"{file.name}: ran, and not there")
    for run in listed.values():
        _judge_run(run, Notes.read(notes_folder / run.id), killed, made)
    return made


def _judge_run(run: Run, notes: Notes, killed: set[int], made: Judgement) -> None:
    details = run.get_details()
    status, message = details["status"], _message(details)
    made.runs += 1
    made.statuses[status] += 1

    def fault(text: str) -> None:
        said = " | ".join((message[:300], _warnings(details)[:300], _end_of_log(run)))
        made.faults.append(f"{run.id} ({status}): {text} | {said}")

    if status not in ENDED:
        return fault("has no end")
    if run.type == "hyperdrive":
        children = len(list(run.get_children()))
        return fault(f"{children} children, not 4") if children != 4 else None
    if notes.starts > 1:
        fault(f"its script began {notes.starts} times")
    _judge_end(status, message, notes, killed, fault)
    _judge_points(run, notes, _warnings(details), fault)
    if not notes.is_interactive:
        _judge_lines(run, notes, fault)
    if status == "Completed" and not notes.is_interactive:
        _judge_outputs(run, fault)
    made.points += len(notes.points)
    made.lines += len(notes.lines)


def _judge_end(status: str, message: str, notes: Notes, killed: set[int], fault: Any) -> None:
    was_killed = notes.pid in killed
    if notes.starts == 0:
        # A full disk, or a client killed between its start_logging() and its first note.
        is_told = status == "Failed" and (NO_SPACE.search(message) or ABANDONED in message)
        return None if is_told else fault("its script never began")
    if notes.ends == [0]:
        # A kill after the last note and before the exit is the script's end as well.
        if status != "Completed" and not was_killed:
            fault("its script ended with 0")
        return None
    if notes.ends:
        if not (status == "Failed" and (f"exit code {notes.ends[0]}" in message or was_killed)):
            fault(f"its script ended with {notes.ends[0]}")
        return None
    if notes.raised and not was_killed:
        expected = ABANDONED in message if notes.is_interactive else NO_SPACE.search(message)
        return None if status == "Failed" and notes.is_full and expected else fault(f"its script raised {notes.raised}")
    if not was_killed:
        return fault("its script neither ended nor was killed by us")
    if notes.completes and status == "Completed":
        return None
    if status != "Failed":
        return fault("its script was killed")
    if not notes.is_interactive and not re.search(r"signal 9|SIGKILL|killed", message):
        return fault("its script was killed, and the message does not say so")
    return None


def _judge_points(run: Run, notes: Notes, warnings: str, fault: Any) -> None:
    stored = run.get_metrics().get("point", [])
    stored = [int(value) for value in (stored if isinstance(stored, list) else [stored])]
    # A call that was under way at the kill may be stored or not; one that returned must be.
    allowed = [notes.points] if notes.ends else [notes.points, [*notes.points, len(notes.points)]]
    if stored in allowed:
        return
    lost, twice = len(set(notes.points) - set(stored)), len(stored) - len(set(stored))
    told = [int(found[1]) for found in LOST.finditer(warnings)]
    if not twice and lost in told:
        return  # a full disk: counted and said
    fault(f"{len(notes.points)} points returned, {len(stored)} stored: {lost} lost, {twice} twice; told {told}")


def _judge_lines(run: Run, notes: Notes, fault: Any) -> None:
    text = "".join(_logs(run).values())
    stored = [int(found) for found in re.findall(r"^line (\d+)$", text, re.M)]
    allowed = [notes.lines] if notes.ends else [notes.lines, [*notes.lines, len(notes.lines)]]
    if stored not in allowed:
        fault(f"{len(notes.lines)} lines printed, {len(stored)} in the log")


def _end_of_log(run: Run) -> str:
    try:
        return "".join(_logs(run).values())[-300:]
    except Exception as error:
        return f"no log: {error}"


def _logs(run: Run) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        names = [name for name in run.get_file_names() if "driver_log" in name]
        texts = {}
        for number, name in enumerate(names):
            place = Path(folder, str(number))
            run.download_file(name, str(place))
            texts[name] = place.read_text(errors="replace")
        return texts


def _judge_outputs(run: Run, fault: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "result.txt")
        try:
            run.download_file("outputs/result.txt", str(place))
        except Exception as error:
            return fault(f"outputs/result.txt is not there: {error}")
        return None if place.read_text() == run.id else fault("outputs/result.txt has other content")


def _message(details: dict[str, Any]) -> str:
    return str(((details.get("error") or {}).get("error") or {}).get("message", ""))


def _warnings(details: dict[str, Any]) -> str:
    return " ".join(str(one.get("message", one)) for one in details.get("warnings") or ())
