"""Checks of a run definition that can be made before anything is started."""

from collections.abc import Iterable, Mapping
from typing import Any

from runyard.errors import InvalidArgument
from runyard.model.files import FileEntry
from runyard.model.names import check_relative_path
from runyard.planning.attempts import max_attempts_of
from runyard.planning.distribution import distribution_of, node_count_of
from runyard.planning.launch_single import command_of

OUTPUTS_OF = "outputs_of"
"""Names, in 'runyard' of a definition, the run with whose outputs/ that one begins. Only we set it."""


def check_no_others_outputs(definition: Mapping[str, Any]) -> None:
    """Raises InvalidArgument where a submitter asks for another run's outputs: it may be one that is not theirs."""
    ours = definition.get("runyard")
    if isinstance(ours, Mapping) and OUTPUTS_OF in ours:
        raise InvalidArgument(
            f"'runyard.{OUTPUTS_OF}' cannot be given with a run: it is set for the children that a sweep resumes.",
            hint="Give resume_child_runs of a HyperDriveConfig, or read the files by Run.download_files().",
        )


def target_of(definition: Mapping[str, Any]) -> str:
    target = definition.get("target") or "local"
    if not isinstance(target, str):
        raise InvalidArgument(f"compute_target must be a name, got {target!r}.")
    return target


def check_nodes(definition: Mapping[str, Any], target: str, *, max_nodes: int) -> None:
    """Raises InvalidArgument, with the numbers, for counts that make no sense or that the target can never have."""
    count = node_count_of(definition)
    if count > max_nodes:
        raise InvalidArgument(
            f"node_count must be at most {max_nodes} on {target!r}, got {count}.",
            hint="Lower it or choose a larger target.",
        )
    distribution_of(definition)
    max_attempts_of(definition)


def check_script(definition: Mapping[str, Any], entries: Iterable[FileEntry]) -> None:
    """The script, unless a command stands in its place, must be a file of the snapshot; either must be one that can be
    started."""
    if definition.get("command"):
        command_of(definition)
        return
    script = definition.get("script")
    if not isinstance(script, str) or not script:
        raise InvalidArgument("The run has neither a script nor a command.", hint="Give script= or command=.")
    path = check_relative_path(script.replace("\\", "/"), "script")
    if path.lower().endswith(".ipynb"):
        raise InvalidArgument(
            f"The script {script!r} is a notebook, which Python cannot run.",
            hint="Make a script of it: jupyter nbconvert --to script NOTEBOOK; and submit that.",
        )
    present = [entry.path for entry in entries]
    if path not in present:
        python_files = [name for name in present if name.endswith(".py")][:10]
        there = f" Python files there: {', '.join(python_files)}." if python_files else ""
        raise InvalidArgument(
            f"The script {script!r} is not in the source_directory.{there}",
            hint="Give its path relative to source_directory, and check that no ignore file leaves it out.",
        )
    command_of(definition)
