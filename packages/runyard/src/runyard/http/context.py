from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from runyard.figures.figures import Figures
from runyard.ports.blobs import LogStore
from runyard.ports.controller import RunMover
from runyard.ports.stores import RunStore
from runyard.services.assets import Assets
from runyard.services.attempt_fence import AttemptFence
from runyard.services.attempt_packages import AttemptPackages
from runyard.services.builds import Builds
from runyard.services.built_environments import BuiltEnvironments
from runyard.services.callers_blobs import CallersBlobs
from runyard.services.computes import Computes
from runyard.services.data.attempt_data import AttemptData
from runyard.services.data.datasets import Datasets
from runyard.services.data.datastores import Datastores
from runyard.services.data.lineage import Lineage
from runyard.services.data.node_reach import NodeReach
from runyard.services.data.outputs import Outputs
from runyard.services.data.store_files import StoreFiles
from runyard.services.environment_labels import EnvironmentLabels
from runyard.services.environments import Environments
from runyard.services.files import Blobs, RunFiles
from runyard.services.journals import Journals
from runyard.services.logs import Logs
from runyard.services.metrics import Metrics
from runyard.services.model_work.packaging import Packages
from runyard.services.model_work.profiling import Profiles
from runyard.services.moving.exporting import RunExports
from runyard.services.moving.importing import RunImports
from runyard.services.notifier import Notifier
from runyard.services.overview import Overviews
from runyard.services.package_settings import WorkspacePackages
from runyard.services.ranks import Ranks
from runyard.services.reruns import Reruns
from runyard.services.runs import Runs
from runyard.services.secrets import Secrets
from runyard.services.snapshots import Snapshots
from runyard.services.submission import Submissions
from runyard.services.sweeps.listing import SweepListing
from runyard.services.sweeps.view import SweepViews
from runyard.services.tokens import Caller, Tokens
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
    """Everything a route may call."""

    workspaces: Workspaces
    submissions: Submissions
    runs: Runs
    ranks: Ranks
    sweeps: SweepListing
    sweep_views: SweepViews
    journals: Journals
    metrics: Metrics
    logs: Logs
    files: RunFiles
    blobs: Blobs
    callers_blobs: CallersBlobs
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
    service_keeper: ServiceKeeper
    model_lineages: ModelLineages
    packages: Packages
    profiles: Profiles
    run_exports: RunExports
    run_imports: RunImports
    upkeep: Upkeep
    overviews: Overviews
    mover: RunMover
    tokens: Tokens
    fence: AttemptFence
    node_reach: NodeReach
    notifier: Notifier
    run_store: RunStore
    log_store: LogStore
    figures: Figures


async def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def caller_of(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


Use = Annotated[Services, Depends(services_of)]
Who = Annotated[Caller, Depends(caller_of)]
