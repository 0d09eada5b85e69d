from pathlib import Path

from runyard.environments.folder import EnvironmentFolder, key_of
from runyard.errors import RunyardError
from runyard.model.runs import RunRecord
from runyard.planning.environment import plan_environment
from runyard.services.environments import Environments


class PythonOfRuns:
    """The Python that a run had, told from its environment, be that on this machine or one that nodes keep."""

    def __init__(self, root: Path, kept: Environments) -> None:
        self._root, self._kept = root, kept

    def __call__(self, run: RunRecord) -> str:
        """A minor version such as "3.7"; "" where nothing tells."""
        wished = ""
        for gpu_present in (False, True):
            try:
                spec = plan_environment(run.definition, gpu_present=gpu_present)
            except (RunyardError, AttributeError, KeyError, TypeError, ValueError):  # of an older Runyard
                continue
            facts = EnvironmentFolder(self._root, key_of(spec)).facts()
            found = facts.python_minor if facts else self._kept.python_of(run.workspace, key_of(spec))
            if found:
                return found
            wished = wished or ("" if spec.user_managed or "," in spec.python else spec.python)
        return ".".join(wished.split(".")[:2])
