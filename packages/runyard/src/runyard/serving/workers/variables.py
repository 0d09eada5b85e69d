import os
from pathlib import Path

from runyard.serving.revision import Revision, app_root, models_root
from runyard.serving.service_folder import ServiceFolder

SERVICE_VARIABLE, WORKER_VARIABLE = "RUNYARD_SERVICE", "RUNYARD_WORKER"
"""Mark the processes of a web service and of one worker, so that they are found wherever they are in the tree."""
_INSTALLER_PREFIXES = ("PIP_", "UV_")


def worker_variables(folder: ServiceFolder, revision: Revision, sdk: Path, worker: str) -> dict[str, str]:
    """Complete environment of a worker, without any variable of the gateway. The SDK is first in PYTHONPATH."""
    variables = {name: value for name, value in revision.inherited.items() if not name.startswith(_INSTALLER_PREFIXES)}
    variables.setdefault("LANG", "C.UTF-8")
    variables.update(revision.variables)
    for name, value in {"PYTHONPATH": str(sdk), **revision.path_variables}.items():
        variables[name] = _prepended(value, variables.get(name, ""))
    variables["PATH"] = _prepended(str(Path(revision.python).parent), variables.get("PATH") or os.defpath)
    app = str(app_root(folder, revision.number))
    return {
        **variables,
        "AML_APP_ROOT": app,
        "AZUREML_APP_ROOT": app,
        "AZUREML_ENTRY_SCRIPT": revision.entry_script,
        "AZUREML_MODEL_DIR": str(model_dir(folder, revision)),
        "PYTHONUNBUFFERED": "1",
        "RUNYARD_HOME": str(folder.home),
        SERVICE_VARIABLE: folder.id,
        WORKER_VARIABLE: worker,
    }


def model_dir(folder: ServiceFolder, revision: Revision) -> Path:
    """Folder of the model when there is one, else the folder of all models."""
    root = models_root(folder, revision.number)
    if len(revision.models) != 1:
        return root
    return root / revision.models[0].name / str(revision.models[0].version)


def _prepended(value: str, path: str) -> str:
    return os.pathsep.join(filter(None, (value, path)))
