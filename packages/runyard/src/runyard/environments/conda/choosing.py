import shutil
from collections.abc import Mapping

from runyard.environments.conda.explicit import is_explicit
from runyard.environments.conda.finding import CONDA_WAYS, CondaTool, find_conda
from runyard.environments.programs import Say
from runyard.environments.sources import Sources
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.model.package_settings import NEVER
from runyard.model.plan import EnvironmentSpec
from runyard.planning.conda_lines import parse_conda_line
from runyard.planning.conda_names import PROGRAMS_INSTEAD, has_no_twin
from runyard.planning.packages import mapping_note


def conda_for(spec: EnvironmentSpec, sources: Sources, log: Say, given_lock: str = "") -> CondaTool | None:
    """Choose the conda tool for a spec; None if uv builds it, after logging what replaces each conda package.

    A lock decides. Raises EnvironmentFailed, before anything is downloaded, if conda is needed and not installed.
    """
    lock = spec.locked or given_lock
    if spec.conda is None or (lock and not is_explicit(lock)):
        return None
    tool = find_conda(sources.variables) if sources.settings.conda != NEVER else None
    if tool:
        log(f"The conda packages are solved by {tool}.")
        return tool
    if lock:
        raise EnvironmentFailed(
            "The environment is to be made again as conda made it, and no conda is here.",
            hint=_how_to_get(sources),
            cause=Cause.CONDA_FAILED,
            said="",
        )
    require_twins(spec, log, sources.variables, hint=_how_to_get(sources))
    return None


def require_twins(
    spec: EnvironmentSpec,
    log: Say,
    variables: Mapping[str, str] | None = None,
    *,
    why: str = "no conda is here to install it",
    hint: str = CONDA_WAYS,
) -> None:
    """Log which PyPI package replaces each conda package. Raises EnvironmentFailed for packages that PyPI lacks.

    `why` says why conda does not install them. A package that is only a program, such as ffmpeg, may be replaced by
    one on the PATH of `variables`.
    """
    missing = []
    for line in spec.conda.packages if spec.conda else ():
        package = parse_conda_line(line)
        program = PROGRAMS_INSTEAD.get(package.name, "")
        path = (variables or {}).get("PATH", "")
        here = shutil.which(program, path=path) if program and path else None
        if here:
            log(f"conda package '{line}' has no twin on the Python package index; {here} of this machine does.")
        else:
            log(mapping_note(package))
            missing += [line] if has_no_twin(package.name) else []
    if missing:
        raise EnvironmentFailed(
            f"The Python package index has no twin of {', '.join(map(repr, missing))}, and {why}.",
            hint=f"{hint} Or take {'it' if len(missing) == 1 else 'them'} out of the conda dependencies.",
            cause=Cause.NO_PYPI_TWIN,
            said="",
            packages=missing,
        )


def _how_to_get(sources: Sources) -> str:
    if sources.settings.conda == NEVER and find_conda(sources.variables):
        return "The workspace's setting conda is 'never': set it to 'auto'."
    return CONDA_WAYS
