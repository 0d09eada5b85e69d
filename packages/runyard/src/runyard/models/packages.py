import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from subprocess import DEVNULL, SubprocessError, run
from typing import Any

from runyard.access.authorization import Access
from runyard.assets.workspaces import Workspaces
from runyard.core.definitions.deployment import DeploymentSpec
from runyard.core.errors import Conflict, EnvironmentFailed
from runyard.core.policy import Action
from runyard.core.ports.blobs import BlobStore
from runyard.core.ports.clock import Clock
from runyard.core.ports.environments import EnvironmentBuilder
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import AssetKind
from runyard.core.records.files import FileEntry
from runyard.core.records.web_services import Scorer, ServiceSpec
from runyard.environments.lockfile import LockFile
from runyard.models.background_work import BackgroundWork, WorkRecord, WriteLine
from runyard.node.sdk_folder import ensure_sdk_folder
from runyard.storage.blobs.content import StoredFolder

Plan = Callable[[Principal, str, str, DeploymentSpec], ServiceSpec]
"""Callback: caller, workspace, name, deployment -> ServiceSpec. Raises as a deployment does; writes nothing."""

AT_ONCE = 2
ANSWER_WITHIN_SECONDS = 2.0
LISTING_SECONDS = 60
LIST_PACKAGES = """
import sys
try:
    from importlib.metadata import distributions
    found = {(d.metadata["Name"] or "", d.version) for d in distributions()}
except ImportError:
    import pkg_resources
    found = {(d.project_name, d.version) for d in pkg_resources.working_set}
print("%d.%d" % sys.version_info[:2])
for name, version in sorted(found):
    if name and name.lower() not in ("runyard", "runyard-sdk"):
        print(name + "==" + version)
"""


class Packages:
    """Makes packages: folders that run a model without Runyard, with Dockerfile, entry point, lock, code and server."""

    def __init__(
        self,
        home: Path,
        assets: AssetStore,
        workspaces: Workspaces,
        access: Access,
        blobs: BlobStore,
        clock: Clock,
        plan: Plan,
        environments: Callable[[ServiceSpec], EnvironmentBuilder],
    ) -> None:
        self._home, self._assets, self._workspaces, self._blobs, self._clock = home, assets, workspaces, blobs, clock
        self._plan, self._environments = plan, environments
        self._work = BackgroundWork(assets, access, AssetKind.PACKAGE, "package", at_once=AT_ONCE)

    def create(self, who: Principal, workspace: str, asked: DeploymentSpec) -> WorkRecord:
        """Start making a package. Waits up to two seconds, which is enough when the environment is cached."""
        self._workspaces.enter(who, Action.DEPLOY, workspace)
        spec = self._plan(who, workspace, "package", asked)
        package_id = str(uuid.uuid4())
        body = {"models": [f"{model.name}:{model.version}" for model in spec.models], "files": []}
        begun = self._work.begin(who, workspace, package_id, body, lambda log_line: self._make(spec, log_line))
        return self._work.wait(workspace, package_id, begun.asset.revision, ANSWER_WITHIN_SECONDS)

    def get(self, who: Principal, workspace: str, package_id: str) -> WorkRecord:
        self._workspaces.enter(who, Action.READ_ASSET, workspace)
        return self._work.get(workspace, package_id)

    def folder(self, who: Principal, workspace: str, package_id: str) -> StoredFolder:
        """Files of a package. Raises Conflict while it is being made, or when it failed."""
        found = self.get(who, workspace, package_id)
        if found.asset.body["error"]:
            raise Conflict(f"The package failed: {found.asset.body['error']['problem']}", hint="Make it again.")
        if found.is_running:
            raise Conflict("The package is being made.", hint="Wait for its creation, then save it.")
        return StoredFolder(self._blobs, [FileEntry(*entry) for entry in found.asset.body["files"]])

    def prune(self, older_than: timedelta) -> list[str]:
        """Delete older packages, which can be made again quickly; return their names."""
        before, deleted = self._clock.now() - older_than, []
        for workspace in self._assets.list_workspaces():
            for asset in self._assets.list(workspace.name, AssetKind.PACKAGE, latest_only=True):
                if asset.modified_at < before:
                    self._assets.delete(workspace.name, AssetKind.PACKAGE, asset.name)
                    deleted.append(asset.name)
        return deleted

    def fail_interrupted(self) -> None:
        """Call it once, at the start of the service."""
        self._work.fail_interrupted()

    def _make(self, spec: ServiceSpec, log_line: WriteLine) -> Mapping[str, Any]:
        python_minor, lock = self._locked(spec, log_line)
        texts = package_texts(spec, python_minor, lock)
        entries = [*self._stored(texts), *self._sdk()]
        entries += [replace(file, path=f"{APP}/{file.path}") for file in spec.code]
        for model in spec.models:
            root = f"{MODELS}/{model.name}/{model.version}"
            entries += [replace(file, path=f"{root}/{file.path}") for file in model.files]
        log_line(f"{len(entries)} files, {sum(entry.size for entry in entries) / 1e6:.1f} MB.")
        return {"files": [[entry.path, entry.sha256, entry.size, entry.mode] for entry in entries]}

    def _locked(self, spec: ServiceSpec, log_line: WriteLine) -> tuple[str, str]:
        """Python as MAJOR.MINOR, and the packages as lines of requirements.txt."""
        built = self._environments(spec).ensure(spec.environment, log_line)
        if spec.environment.user_managed:
            log_line(f"The environment is the user's own: requirements.txt holds what {built.python} has.")
        listed = _installed_packages(built.python)
        if not spec.environment.user_managed:
            listed = [listed[0], *LockFile.parse(built.lock).versions]
        return listed[0], "\n".join(listed[1:])

    def _stored(self, texts: Mapping[str, str]) -> list[FileEntry]:
        named = {path: text.encode() for path, text in texts.items()}
        hashes = {path: hashlib.sha256(content).hexdigest() for path, content in named.items()}
        self._blobs.put_many((hashes[path], content) for path, content in named.items())
        return [FileEntry(path, hashes[path], len(content)) for path, content in named.items()]

    def _sdk(self) -> list[FileEntry]:
        root = ensure_sdk_folder(self._home)
        paths = sorted(root.rglob("*.py"))
        stored = self._blobs.put_files(paths)
        return [
            FileEntry(f"{SDK}/{path.relative_to(root)}", sha256, size)
            for path, (sha256, size) in zip(paths, stored, strict=True)
        ]


def _installed_packages(python: Path) -> list[str]:
    """Run the interpreter and return its version and its packages, a line each."""
    command = [str(python), "-I", "-c", LIST_PACKAGES]
    try:
        done = run(command, stdin=DEVNULL, capture_output=True, timeout=LISTING_SECONDS, check=True, text=True)
    except (OSError, SubprocessError) as error:
        output = str(getattr(error, "stderr", "") or error).strip().splitlines()
        raise EnvironmentFailed(
            f"The interpreter {str(python)!r} does not tell its packages: {output[-1] if output else error}.",
            hint="Give the environment an interpreter that runs.",
        ) from error
    return done.stdout.split()


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
