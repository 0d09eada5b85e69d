import os
from pathlib import Path

from runyard.serving.folder import ServiceFolder
from runyard.serving.revision import Revision, app_root, models_root

SERVICE_VARIABLE, WORKER_VARIABLE = "RUNYARD_SERVICE", "RUNYARD_WORKER"
"""By these the processes of a web service, and of one worker, are known wherever they hang."""
_FOR_INSTALLERS = ("PIP_", "UV_")


def worker_variables(folder: ServiceFolder, revision: Revision, sdk: Path, worker: str) -> dict[str, str]:
    """The whole environment of a worker: nothing of the gateway's own gets in. The SDK comes first on its path."""
    variables = {name: value for name, value in revision.inherited.items() if not name.startswith(_FOR_INSTALLERS)}
    variables.setdefault("LANG", "C.UTF-8")
    variables.update(revision.variables)
    for name, value in {"PYTHONPATH": str(sdk), **revision.path_variables}.items():
        variables[name] = _in_front(value, variables.get(name, ""))
    variables["PATH"] = _in_front(str(Path(revision.python).parent), variables.get("PATH") or os.defpath)
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
    """The folder of the one model, or of all of them."""
    root = models_root(folder, revision.number)
    if len(revision.models) != 1:
        return root
    return root / revision.models[0].name / str(revision.models[0].version)


def _in_front(value: str, of: str) -> str:
    return os.pathsep.join(filter(None, (value, of)))
