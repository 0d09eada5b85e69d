from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from runyard.core.principal import Principal
from runyard.figures.figures import Figures
from runyard.runs.history.files import Blobs, RunFiles
from runyard.runs.history.following import Followers
from runyard.runs.history.journals import Journals
from runyard.runs.history.logs import Logs
from runyard.runs.history.metrics import Metrics
from runyard.runs.history.notifier import Notifier
from runyard.runs.history.ranks import Ranks
from runyard.runs.kinds.build import Builds
from runyard.runs.kinds.registry import RunKinds
from runyard.runs.kinds.sweep.views import SweepListing, SweepViews
from runyard.runs.overview import Overviews
from runyard.runs.reruns import Reruns
from runyard.runs.runs import Runs
from runyard.runs.scheduling.controller import Controller
from runyard.runs.snapshots import Snapshots
from runyard.runs.submission import Submissions
from runyard.runs.transfer.exporting import RunExports
from runyard.runs.transfer.importing import RunImports
from runyard.services.access import Access
from runyard.services.assets import Assets
from runyard.services.attempt_packages import AttemptPackages
from runyard.services.built_environments import BuiltEnvironments
from runyard.services.computes import Computes
from runyard.services.data.attempt_data import AttemptData
from runyard.services.data.datasets import Datasets
from runyard.services.data.datastores import Datastores
from runyard.services.data.lineage import Lineage
from runyard.services.data.outputs import Outputs
from runyard.services.data.store_files import StoreFiles
from runyard.services.environment_labels import EnvironmentLabels
from runyard.services.environments import Environments
from runyard.services.model_work.packaging import Packages
from runyard.services.model_work.profiling import Profiles
from runyard.services.package_settings import WorkspacePackages
from runyard.services.secrets import Secrets
from runyard.services.tokens import Tokens
from runyard.services.upkeep import Upkeep
from runyard.services.web_services.endpoints import Endpoints
from runyard.services.web_services.keeping import ServiceKeeper
from runyard.services.web_services.keys import ServiceKeys
from runyard.services.web_services.model_lineage import ModelLineages
from runyard.services.web_services.records import ServiceRecords
from runyard.services.web_services.web_services import WebServices
from runyard.services.workspaces import Workspaces


@dataclass(frozen=True)
class Services:
    """The use cases that routes may call."""

    workspaces: Workspaces
    submissions: Submissions
    runs: Runs
    ranks: Ranks
    sweeps: SweepListing
    sweep_views: SweepViews
    journals: Journals
    metrics: Metrics
    logs: Logs
    followers: Followers
    files: RunFiles
    blobs: Blobs
    snapshots: Snapshots
    assets: Assets
    computes: Computes
    environments: Environments
    environment_labels: EnvironmentLabels
    built_environments: BuiltEnvironments
    builds: Builds
    package_settings: WorkspacePackages
    attempt_packages: AttemptPackages
    reruns: Reruns
    datastores: Datastores
    store_files: StoreFiles
    datasets: Datasets
    attempt_data: AttemptData
    outputs: Outputs
    lineage: Lineage
    secrets: Secrets
    web_services: WebServices
    endpoints: Endpoints
    service_records: ServiceRecords
    service_keys: ServiceKeys
    service_reconciler: ServiceKeeper
    model_lineages: ModelLineages
    packages: Packages
    profiles: Profiles
    run_exports: RunExports
    run_imports: RunImports
    upkeep: Upkeep
    overviews: Overviews
    controller: Controller
    kinds: RunKinds
    tokens: Tokens
    access: Access
    notifier: Notifier
    server_metrics: Figures


async def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def caller_of(request: Request) -> Principal:
    caller: Principal = request.state.caller
    return caller


Use = Annotated[Services, Depends(services_of)]
Who = Annotated[Principal, Depends(caller_of)]
