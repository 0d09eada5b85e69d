"""The service side of web services in this process: real stores and files, a scripted host."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runyard.assets.secrets import Vault
from runyard.assets.workspaces import NewWorkspace, Workspaces
from runyard.core.definitions.deployment import DeploymentSpec
from runyard.core.principal import OWNER
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.settings import Settings
from runyard.server.wiring.core import Core, open_core
from runyard.server.wiring.environments import build_environments
from runyard.server.wiring.web_services import ServingServices, build_serving
from runyard.serving.deployments.records import ServiceRecord
from runyard.serving.deployments.web_services import NewService, ServiceChanges, ServiceFilter
from tests.serving.scripted_host import ScriptedHost

SPACE = "space"
SCRIPT = b"def init():\n    pass\ndef run(data):\n    return data\n"


def changes_of(
    *, description: str | None = None, tags: Any = None, properties: Any = None, **spec: Any
) -> ServiceChanges:
    return ServiceChanges(DeploymentSpec.parse(spec), description, tags or {}, properties or {})


@dataclass
class Parts:
    base: Core
    host: ScriptedHost
    serving: ServingServices

    def blob(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        self.base.blobs.put(sha256, iter([content]))
        return sha256

    def model(self, name: str = "iris", **body: Any) -> Asset:
        files = [["model.pkl", self.blob(name.encode()), len(name), 0o644]]
        whole = {"files": files, "framework": "ScikitLearn", **body}
        return self.base.stores.assets.add(SPACE, AssetKind.MODEL, name, whole, {})

    def inference(self, script: bytes = SCRIPT, **environment: Any) -> dict[str, Any]:
        return {
            "entry_script": "score.py",
            "files": [["score.py", self.blob(script), len(script), 0o644]],
            "environment": {
                "python": {"userManagedDependencies": True, "interpreterPath": "/bin/python"},
                **environment,
            },
        }

    def deploy(
        self, name: str = "iris-service", *, overwrite: bool = False, tags: Any = None, **definition: Any
    ) -> Asset:
        given = {"type": "ACI", "models": ["iris:1"], "inference": self.inference(), **definition}
        spec = DeploymentSpec.parse(given)
        return self.serving.services.deploy(OWNER, SPACE, NewService(name, spec, overwrite=overwrite, tags=tags or {}))

    def change(self, name: str = "iris-service", **changes: Any) -> Asset:
        return self.serving.services.change(OWNER, SPACE, name, changes_of(**changes))

    def names(self, **wanted: Any) -> list[str]:
        return [service.name for service in self.serving.services.list(OWNER, SPACE, ServiceFilter(**wanted))]

    def record(self, name: str = "iris-service") -> ServiceRecord:
        return self.serving.records.whole(OWNER, self.serving.services.get(OWNER, SPACE, name))

    def restarted(self, **settings: Any) -> "Parts":
        """As another service process would find it, with the same host."""
        base = replace(self.base, settings=replace(self.base.settings, **settings))
        return _parts(base, self.host)


@contextmanager
def opened_parts(home: Path) -> Iterator[Parts]:
    base = open_core(Settings(home=home), "owner")
    Workspaces(base.stores.assets, base.runs, base.clock, base.access).create(
        OWNER, SPACE, NewWorkspace(), exist_ok=True
    )
    try:
        yield _parts(base, ScriptedHost())
    finally:
        base.stores.close()


def _parts(base: Core, host: ScriptedHost) -> Parts:
    workspaces = Workspaces(base.stores.assets, base.runs, base.clock, base.access)
    vault = Vault(base.stores.assets, key_file=base.settings.home / "secrets.key")
    return Parts(base, host, build_serving(base, workspaces, vault, host, build_environments(base, workspaces, vault)))
