"""Wiring of the use cases around web services."""

import os
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass

from runyard.assets.secrets import Vault
from runyard.assets.workspaces import Workspaces
from runyard.core.plan_json import environment_from_json
from runyard.core.ports.serving import ServiceHost
from runyard.core.ports.stores import AssetStore
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.folder import EnvironmentFolder, environment_key
from runyard.environments.workspace.locks import EnvironmentLocks
from runyard.server.wiring.core import Core
from runyard.server.wiring.environments import EnvironmentServices
from runyard.serving.deployments.config import Machine
from runyard.serving.deployments.credentials import ServiceCredentials
from runyard.serving.deployments.endpoints import Endpoints
from runyard.serving.deployments.keys import ServiceKeys
from runyard.serving.deployments.old_revisions import OldRevisions
from runyard.serving.deployments.planner import DeploymentPlanner
from runyard.serving.deployments.reconciler import ServiceReconciler
from runyard.serving.deployments.records import ServiceRecords
from runyard.serving.deployments.servable_models import RunPythonVersions, ServableModels
from runyard.serving.deployments.web_services import WebServices
from runyard.serving.deployments.writer import KIND, ServiceWriter


@dataclass(frozen=True)
class ServingServices:
    host: ServiceHost
    planner: DeploymentPlanner
    services: WebServices
    endpoints: Endpoints
    records: ServiceRecords
    keys: ServiceKeys
    reconciler: ServiceReconciler
    leftovers: OldRevisions
    assets: AssetStore
    models_lock: AbstractContextManager[bool]
    """Lock: while it is held, no model is deleted and no deployment of one is created."""

    def environments_in_use(self) -> set[str]:
        """Keys of environments that web services need, also of those that do not answer now."""
        workspaces = self.assets.list_workspaces()
        bodies = [one.body for workspace in workspaces for one in self.assets.list(workspace.name, KIND)]
        return {environment_key(environment_from_json(dict(body["environment"]))) for body in bodies}


def build_serving(
    base: Core, workspaces: Workspaces, vault: Vault, host: ServiceHost, environments: EnvironmentServices
) -> ServingServices:
    settings, assets = base.settings, base.stores.assets
    kept = EnvironmentLocks(base.runs, assets, base.callers_blobs, base.clock, base.access)
    python_of = RunPythonVersions(environments.root, kept, environments.packages.sources)
    models = ServableModels(assets, base.runs, base.access, python_of)
    machine = Machine(len(os.sched_getaffinity(0)), tuple(gpu.index for gpu in base.gpus))
    planner = DeploymentPlanner(
        assets,
        base.access,
        models,
        base.callers_blobs,
        environments.incoming,
        environments.packages,
        environments.addresses,
        settings.web_services,
        machine,
    )
    credentials = ServiceCredentials(vault)
    models_lock = threading.Lock()
    writer = ServiceWriter(assets, host, planner, credentials, models_lock)
    services = WebServices(assets, workspaces, base.access, planner, credentials, writer)

    def lock_of(spec: EnvironmentSpec) -> str:
        facts = EnvironmentFolder(environments.root, environment_key(spec)).facts()
        return facts.lock if facts else ""

    return ServingServices(
        host=host,
        planner=planner,
        services=services,
        endpoints=Endpoints(services, workspaces, base.access, planner, credentials, writer),
        records=ServiceRecords(assets, base.access, host, settings.web_services, lock_of),
        keys=ServiceKeys(services, credentials, writer),
        reconciler=ServiceReconciler(assets, host, credentials, writer),
        leftovers=OldRevisions(settings.home / "services", assets, host),
        assets=assets,
        models_lock=models_lock,
    )
