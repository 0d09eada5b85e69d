import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from runyard.errors import Json
from runyard.model.plan import LaunchPlan, ProcessSpec
from runyard.node.attempt import PART_VARIABLE, AttemptFolder
from runyard.node.preparation import Prepared
from runyard.node.processes import prefer_for_out_of_memory
from runyard.node.rendezvous import with_ports
from runyard.node.service_client import certificates_file

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_RANK_STARTER = "{rank_starter}"


@dataclass(frozen=True)
class Launch:
    """All that the processes of a part are started with."""

    folder: AttemptFolder
    plan: LaunchPlan
    prepared: Prepared
    sdk: Path
    roster: Sequence[Json] = ()
    """What each node said when it was ready, by node."""
    words: Mapping[str, str] = field(default_factory=dict)
    """What the words of a launcher stand for on this node."""
    of_launchers: Mapping[str, str] = field(default_factory=dict)
    """Variables of what starts ranks here."""
    enter: Callable[[], None] | None = None
    """Called in the new process before it becomes the script: into the attempt's own network."""

    def start(self, spec: ProcessSpec) -> int:
        """Start one process of the run, in a session of its own, and return its pid. Raises OSError.

        Its output goes straight into a file: it needs nobody to go on.
        """
        variables = self.variables(spec.env, None if spec.role == "launcher" else spec.rank)
        log = log_file(self.folder, spec)
        with log.open("ab", buffering=0) as output:
            for line in self.notices() if spec.rank == 0 and spec.role != "launcher" else ():
                output.write(f"{line}\n".encode())
            return self._run(self.command(spec, variables), variables, output)

    def start_daemon(self, command: list[str], variables: Mapping[str, str], log: Path) -> int:
        """Start what a launcher on another node asked for. Raises OSError."""
        with log.open("ab", buffering=0) as output:
            return self._run(command, variables, output)

    def notices(self) -> list[str]:
        """Lines for the head of rank 0's log."""
        return [*self.plan.notices, *self.prepared.data.notices, *_of_other_sdk(self.prepared)]

    def command(self, spec: ProcessSpec, variables: Mapping[str, str]) -> list[str]:
        """The command with interpreter, data paths, ports and `$NAME` variables filled in. A shell expands its own
        text, and what a rank starter is given is filled in where the rank is."""
        if _RANK_STARTER in spec.command:
            end = spec.command.index(_RANK_STARTER) + 1
            return [*map(self._filled, spec.command[:end]), *spec.command[end:]]
        words = [self._filled(word) for word in spec.command]
        for text, path in self.placeholders():
            words = [word.replace(text, path) for word in words]
        if spec.command[0] != "{python}":
            return words
        return [
            words[0],
            *(_VARIABLE.sub(lambda found: variables.get(found[1] or found[2], found[0]), word) for word in words[1:]),
        ]

    def placeholders(self) -> list[tuple[str, str]]:
        """What stands in arguments for the data of the run, with its path on this node."""
        found = [(item.placeholder, self.prepared.data.paths[item.name]) for item in self.plan.data if item.placeholder]
        # Longest first: one placeholder may be the beginning of another.
        return sorted(found, key=lambda pair: len(pair[0]), reverse=True)

    def variables(self, own: Mapping[str, str], rank: int | None) -> dict[str, str]:
        """The whole environment of a process: nothing of the supervisor's own gets in. The SDK comes first on its
        path. Without a rank of its own it is one that starts ranks."""
        variables = {**self.plan.env, **{name: self._filled(value) for name, value in own.items()}}
        for item in self.plan.data:
            variables.update(dict.fromkeys(item.variables, self.prepared.data.paths[item.name]))
        put_first = {"PYTHONPATH": str(self.sdk), **self.prepared.path_variables}
        for name, value in put_first.items():
            variables[name] = os.pathsep.join(filter(None, (value, variables.get(name, ""))))
        variables["PATH"] = os.pathsep.join(
            (str(Path(self.prepared.python).parent), variables.get("PATH") or os.defpath)
        )
        certificates = certificates_file(self.folder.home)
        return {
            **variables,
            **({"RUNYARD_CA": str(certificates)} if certificates is not None else {}),
            **({"RUNYARD_RANK": str(rank)} if rank is not None else self.of_launchers),
            "RUNYARD_HOME": str(self.folder.home),
            "RUNYARD_JOURNALS": str(self.folder.journals),
            "RUNYARD_UPLOADS": str(self.folder.uploads),
            "RUNYARD_ATTEMPT": self.plan.attempt_id,
            PART_VARIABLE: self.plan.part,
        }

    def _filled(self, word: str) -> str:
        if word == "{python}":
            return self.prepared.python
        return with_ports(self.words.get(word, word), self.roster)

    def _run(self, command: list[str], variables: Mapping[str, str], output: IO[bytes]) -> int:
        try:
            process = subprocess.Popen(
                command,
                cwd=self.folder.work,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=self.enter,
            )
        except subprocess.SubprocessError as e:
            raise OSError("the run's own network is gone") from e
        process.returncode = 0  # The event loop reaps it; Popen must not.
        prefer_for_out_of_memory(process.pid)
        return process.pid


def log_file(folder: AttemptFolder, spec: ProcessSpec) -> Path:
    return folder.std / Path(spec.log).name


def _of_other_sdk(prepared: Prepared) -> list[str]:
    if not _has_azureml_core(Path(prepared.python).parent.parent / "lib"):
        return []
    return ["Runyard: azureml-core is installed in this environment; the azureml of Runyard comes first on the path."]


def _has_azureml_core(libraries: Path) -> bool:
    for version in _names(libraries):
        for packages in ("site-packages", "dist-packages"):
            if version.startswith("python3") and any(
                name.startswith("azureml_core-") for name in _names(libraries / version / packages)
            ):
                return True
    return False


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
