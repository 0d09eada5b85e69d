from collections.abc import Iterable

from runyard.core.definitions.run import OUTPUTS_OF, RunDefinition
from runyard.errors import InvalidArgument
from runyard.model.files import FileEntry
from runyard.model.names import check_relative_path
from runyard.planning.distribution import distribution_of


def check_no_others_outputs(definition: RunDefinition) -> None:
    """Raise InvalidArgument if a submitter asks for the outputs of another run: it may be one they cannot read."""
    if OUTPUTS_OF in definition.runyard.raw:
        raise InvalidArgument(
            f"'runyard.{OUTPUTS_OF}' cannot be given with a run: it is set for the children that a sweep resumes.",
            hint="Give resume_child_runs of a HyperDriveConfig, or read the files by Run.download_files().",
        )


def check_nodes(definition: RunDefinition, target: str, *, max_nodes: int) -> None:
    """Raise InvalidArgument for counts that make no sense or that the target can never provide."""
    count = definition.node_count
    if count > max_nodes:
        raise InvalidArgument(
            f"node_count must be at most {max_nodes} on {target!r}, got {count}.",
            hint="Lower it or choose a larger target.",
        )
    distribution_of(definition)


def check_script(definition: RunDefinition, entries: Iterable[FileEntry]) -> None:
    """Raise InvalidArgument unless the script is a file of the snapshot, or there is a command instead."""
    if definition.command:
        return
    script = definition.script
    if not script:
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
