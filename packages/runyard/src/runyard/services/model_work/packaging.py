import hashlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from subprocess import DEVNULL, SubprocessError, run
from typing import Any

from runyard.core.definitions.deployment import DeploymentSpec
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.environments.lockfile import Lock
from runyard.errors import Conflict, EnvironmentFailed
from runyard.model.assets import AssetKind
from runyard.model.files import FileEntry
from runyard.model.web_services import ServiceSpec
from runyard.node.sdk_folder import ensure_sdk_folder
from runyard.planning.web_services.package_folder import APP, MODELS, SDK, package_texts
from runyard.ports.blobs import BlobStore
from runyard.ports.clock import Clock
from runyard.ports.environments import EnvironmentBuilder
from runyard.ports.stores import AssetStore
from runyard.services.access import Access
from runyard.services.content import StoredFolder
from runyard.services.model_work.recorded_work import Recorded, RecordedWork, Say
from runyard.services.workspaces import Workspaces

Plan = Callable[[Principal, str, str, DeploymentSpec], ServiceSpec]
"""From caller, workspace, name and deployment to its ServiceSpec. Raises as a deployment does; writes nothing."""

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
        self._work = RecordedWork(assets, access, AssetKind.PACKAGE, "package", at_once=AT_ONCE)

    def create(self, who: Principal, workspace: str, asked: DeploymentSpec) -> Recorded:
        """Start making a package. Waits up to two seconds, which is enough when the environment is cached."""
        self._workspaces.enter(who, Action.DEPLOY, workspace)
        spec = self._plan(who, workspace, "package", asked)
        package_id = str(uuid.uuid4())
        body = {"models": [f"{model.name}:{model.version}" for model in spec.models], "files": []}
        begun = self._work.begin(who, workspace, package_id, body, lambda say: self._make(spec, say))
        return self._work.wait(workspace, package_id, begun.asset.revision, ANSWER_WITHIN_SECONDS)

    def get(self, who: Principal, workspace: str, package_id: str) -> Recorded:
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

    def _make(self, spec: ServiceSpec, say: Say) -> Mapping[str, Any]:
        python_minor, lock = self._locked(spec, say)
        texts = package_texts(spec, python_minor, lock)
        entries = [*self._stored(texts), *self._sdk()]
        entries += [replace(file, path=f"{APP}/{file.path}") for file in spec.code]
        for model in spec.models:
            root = f"{MODELS}/{model.name}/{model.version}"
            entries += [replace(file, path=f"{root}/{file.path}") for file in model.files]
        say(f"{len(entries)} files, {sum(entry.size for entry in entries) / 1e6:.1f} MB.")
        return {"files": [[entry.path, entry.sha256, entry.size, entry.mode] for entry in entries]}

    def _locked(self, spec: ServiceSpec, say: Say) -> tuple[str, str]:
        """Python as MAJOR.MINOR, and the packages as lines of requirements.txt."""
        built = self._environments(spec).ensure(spec.environment, say)
        if spec.environment.user_managed:
            say(f"The environment is the user's own: requirements.txt holds what {built.python} has.")
        listed = _installed_packages(built.python)
        if not spec.environment.user_managed:
            listed = [listed[0], *Lock.parse(built.lock).versions]
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
