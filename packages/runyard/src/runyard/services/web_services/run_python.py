from collections.abc import Callable, Mapping
from pathlib import Path

from runyard.environments.folder import EnvironmentFolder, key_of
from runyard.environments.lockfile import Lock
from runyard.errors import RunyardError
from runyard.model.runs import RunRecord
from runyard.planning.environment import plan_environment
from runyard.planning.submitter_variables import submitter_variables
from runyard.services.environments import Environments


class PythonOfRuns:
    """Finds the Python version of a run, from its environment on this machine or on nodes."""

    def __init__(self, root: Path, kept: Environments, sources: Callable[[str, Mapping[str, str]], str]) -> None:
        """`sources` maps a workspace and a submitter's variables to the package sources in an environment's key."""
        self._root, self._kept, self._sources = root, kept, sources

    def __call__(self, run: RunRecord) -> str:
        """A minor version such as "3.7"; "" when it is not known."""
        locked = Lock.parse(run.environment_lock).python
        if locked:
            return ".".join(locked.split(".")[:2])
        sources = self._sources(run.workspace, submitter_variables(run.definition))
        asked = ""
        for gpu_present in (False, True):
            try:
                spec = plan_environment(run.definition, gpu_present=gpu_present, sources=sources)
            except (RunyardError, AttributeError, KeyError, TypeError, ValueError):  # definition of an older Runyard
                continue
            facts = EnvironmentFolder(self._root, key_of(spec)).facts()
            found = facts.python_minor if facts else self._kept.python_of(run.workspace, key_of(spec))
            if found:
                return found
            asked = asked or ("" if spec.user_managed or "," in spec.python else spec.python)
        return ".".join(asked.split(".")[:2])
