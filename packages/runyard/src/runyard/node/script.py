import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from runyard.model.plan import LaunchPlan, ProcessSpec
from runyard.node.attempt import PART_VARIABLE, AttemptFolder
from runyard.node.preparation import Prepared
from runyard.node.processes import prefer_for_out_of_memory

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def start_script(folder: AttemptFolder, plan: LaunchPlan, spec: ProcessSpec, prepared: Prepared, sdk: Path) -> int:
    """Start one process of the run, in a session of its own, and return its pid. Raises OSError.

    Its output goes straight into a file: it needs nobody to go on.
    """
    variables = script_variables(folder, plan, spec, prepared, sdk)
    log = log_file(folder, spec)
    with log.open("ab", buffering=0) as output:
        notices = (*plan.notices, *prepared.data.notices) if spec.rank == 0 else ()
        for line in (*notices, *_of_other_sdk(prepared)):
            output.write(f"{line}\n".encode())
        process = subprocess.Popen(
            script_command(plan, spec, prepared, variables),
            cwd=folder.work,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    process.returncode = 0  # The event loop reaps it; Popen must not.
    prefer_for_out_of_memory(process.pid)
    return process.pid


def log_file(folder: AttemptFolder, spec: ProcessSpec) -> Path:
    return folder.std / Path(spec.log).name


def script_command(plan: LaunchPlan, spec: ProcessSpec, prepared: Prepared, variables: Mapping[str, str]) -> list[str]:
    """The command with interpreter, data paths and `$NAME` variables filled in. A shell expands its own text."""
    words = [prepared.python if word == "{python}" else word for word in spec.command]
    # Longest first: one placeholder may be the beginning of another.
    for item in sorted(plan.data, key=lambda item: len(item.placeholder), reverse=True):
        if item.placeholder:
            words = [word.replace(item.placeholder, prepared.data.paths[item.name]) for word in words]
    if spec.command[0] != "{python}":
        return words
    return [
        words[0],
        *(_VARIABLE.sub(lambda found: variables.get(found[1] or found[2], found[0]), word) for word in words[1:]),
    ]


def script_variables(
    folder: AttemptFolder, plan: LaunchPlan, spec: ProcessSpec, prepared: Prepared, sdk: Path
) -> dict[str, str]:
    """The whole environment of the script: nothing of the supervisor's own gets in. `sdk` comes first on its path."""
    variables = {**plan.env, **spec.env}
    for item in plan.data:
        variables.update(dict.fromkeys(item.variables, prepared.data.paths[item.name]))
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(sdk), variables.get("PYTHONPATH", ""))))
    variables["PATH"] = os.pathsep.join((str(Path(prepared.python).parent), variables.get("PATH") or os.defpath))
    return {
        **variables,
        "RUNYARD_HOME": str(folder.home),
        "RUNYARD_JOURNALS": str(folder.journals),
        "RUNYARD_UPLOADS": str(folder.uploads),
        "RUNYARD_RANK": str(spec.rank),
        "RUNYARD_ATTEMPT": plan.attempt_id,
        PART_VARIABLE: plan.part,
    }


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
