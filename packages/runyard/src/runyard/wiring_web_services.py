"""Wiring of the use cases around web services."""

import os
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass

from runyard.environments.folder import EnvironmentFolder, key_of
from runyard.foundation import Foundation
from runyard.model.plan import EnvironmentSpec
from runyard.planning.plan_json import environment_from_json
from runyard.planning.web_services.service_config import Machine
from runyard.ports.serving import ServiceHost
from runyard.ports.stores import AssetStore
from runyard.services.environments import Environments
from runyard.services.secrets import Vault
from runyard.services.web_services.blueprints import Blueprints
from runyard.services.web_services.credentials import ServiceCredentials
from runyard.services.web_services.endpoints import Endpoints
from runyard.services.web_services.keeping import ServiceKeeper
from runyard.services.web_services.keys import ServiceKeys
from runyard.services.web_services.leftovers import ServiceLeftovers
from runyard.services.web_services.models import ServableModels
from runyard.services.web_services.records import ServiceRecords
from runyard.services.web_services.run_python import PythonOfRuns
from runyard.services.web_services.web_services import WebServices
from runyard.services.web_services.writing import KIND, ServiceWriter
from runyard.services.workspaces import Workspaces
from runyard.wiring_environments import EnvironmentServices


@dataclass(frozen=True)
class Serving:
    host: ServiceHost
    blueprints: Blueprints
    services: WebServices
    endpoints: Endpoints
    records: ServiceRecords
    keys: ServiceKeys
    reconciler: ServiceKeeper
    leftovers: ServiceLeftovers
    assets: AssetStore
    models_stay: AbstractContextManager[bool]
    """Lock: while it is held, no model is deleted and no deployment of one is created."""

    def environments_in_use(self) -> set[str]:
        """Keys of environments that web services need, also of those that do not answer now."""
        workspaces = self.assets.list_workspaces()
        bodies = [one.body for workspace in workspaces for one in self.assets.list(workspace.name, KIND)]
        return {key_of(environment_from_json(dict(body["environment"]))) for body in bodies}


def build_serving(
    base: Foundation, workspaces: Workspaces, vault: Vault, host: ServiceHost, environments: EnvironmentServices
) -> Serving:
    settings, assets = base.settings, base.stores.assets
    kept = Environments(base.runs, assets, base.callers_blobs, base.clock, base.access)
    python_of = PythonOfRuns(environments.root, kept, environments.packages.sources)
    models = ServableModels(assets, base.runs, base.access, python_of)
    machine = Machine(len(os.sched_getaffinity(0)), tuple(gpu.index for gpu in base.gpus))
    blueprints = Blueprints(
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
    models_stay = threading.Lock()
    writer = ServiceWriter(assets, host, blueprints, credentials, models_stay)
    services = WebServices(assets, workspaces, base.access, blueprints, credentials, writer)

    def lock_of(spec: EnvironmentSpec) -> str:
        facts = EnvironmentFolder(environments.root, key_of(spec)).facts()
        return facts.lock if facts else ""

    return Serving(
        host=host,
        blueprints=blueprints,
        services=services,
        endpoints=Endpoints(services, workspaces, base.access, blueprints, credentials, writer),
        records=ServiceRecords(assets, base.access, host, settings.web_services, lock_of),
        keys=ServiceKeys(services, credentials, writer),
        reconciler=ServiceKeeper(assets, host, credentials, writer),
        leftovers=ServiceLeftovers(settings.home / "services", assets, host),
        assets=assets,
        models_stay=models_stay,
    )
