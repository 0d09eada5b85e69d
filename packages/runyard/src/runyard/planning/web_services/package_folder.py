import json
from collections.abc import Mapping

from runyard.model.web_services import Scorer, ServiceSpec

APP, MODELS, SDK = "azureml-app", "azureml-models", "sdk"
PORT = 5001
FOLDER_IN_IMAGE = "/var/azureml"
OF_THIS_MACHINE = frozenset({"CUDA_VISIBLE_DEVICES"})


def package_texts(spec: ServiceSpec, python_minor: str, lock: str) -> Mapping[str, str]:
    """Text files of a package by path; code, models and SDK are added to them. `lock` is for that Python."""
    return {
        "Dockerfile": _dockerfile(python_minor),
        "README.md": _readme(spec, python_minor),
        "entrypoint.py": ENTRYPOINT,
        "package.json": json.dumps(_start(spec), indent=2, sort_keys=True) + "\n",
        "requirements.txt": "".join(f"{line}\n" for line in lock.split("\n") if line.strip()),
        ".dockerignore": "README.md\n**/__pycache__\n",
        f"{APP}/.keep": "",  # the server's working folder, also where there is no code
    }


def _start(spec: ServiceSpec) -> dict[str, object]:
    """Payload of the START frame with paths relative to the package, and the variables of the process."""
    models = [
        {"name": model.name, "version": model.version, "path": f"{MODELS}/{model.name}/{model.version}"}
        for model in spec.models
    ]
    return {
        "scorer": spec.scorer,
        "service": spec.name,
        "entry_script": spec.entry_script,
        "app_root": APP,
        "models_root": MODELS,
        "models": models,
        "requests_at_once": spec.scale.requests_at_once,
        "framework_version": spec.framework_version,
        "variables": {name: value for name, value in spec.variables.items() if name not in OF_THIS_MACHINE},
    }


def _dockerfile(python_minor: str) -> str:
    # Install packages before copying the model: another model then reuses the image layers.
    return f"""FROM python:{python_minor}-slim
WORKDIR {FOLDER_IN_IMAGE}
COPY requirements.txt ./
RUN pip install --no-cache-dir -r requirements.txt
COPY . ./
RUN ln -s ../{MODELS} {APP}/{MODELS} && useradd --system --no-create-home scoring
USER scoring
EXPOSE {PORT}
CMD ["python", "entrypoint.py", "--host", "0.0.0.0", "--port", "{PORT}"]
"""


def _readme(spec: ServiceSpec, python_minor: str) -> str:
    named = ", ".join(f"{model.name}, version {model.version}" for model in spec.models)
    way = f"the script {spec.entry_script}" if spec.scorer is Scorer.SCRIPT else f"the {spec.scorer} scorer, no code"
    return f"""# {named}

A model that answers over HTTP, by {way}. Nothing of Runyard is needed but what lies in this folder.

As a container:

    docker build -t scoring .
    docker run -p {PORT}:{PORT} scoring

Or on a machine with Python {python_minor}:

    python -m venv .venv
    .venv/bin/pip install -r requirements.txt
    .venv/bin/python entrypoint.py

Then ask it, with a body as the model takes it:

    curl http://localhost:{PORT}/score -H 'Content-Type: application/json' -d '...'

| | |
|---|---|
| `entrypoint.py` | starts the server; `--host` (127.0.0.1) and `--port` ({PORT}) |
| `package.json` | what is served, and the variables of the process |
| `requirements.txt` | every package with its version |
| `{APP}/` | the code |
| `{MODELS}/` | the models, NAME/VERSION/ |
| `{SDK}/` | the server, and `azureml` for scoring scripts that import it |
"""


ENTRYPOINT = '''"""Serve the model of this folder over HTTP: python entrypoint.py [--host HOST] [--port PORT]"""

import json
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def main():
    with open(os.path.join(FOLDER, "package.json"), encoding="utf-8") as file:
        variables = json.load(file)["variables"]
    for name, value in variables.items():
        os.environ.setdefault(name, value)
    sys.path.insert(0, os.path.join(FOLDER, "sdk"))
    from runyard_sdk.scoring.standalone import main as serve

    sys.exit(serve([os.path.join(FOLDER, "package.json")] + sys.argv[1:]))


if __name__ == "__main__":
    main()
'''
