from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from runyard.access.authorization import Access
from runyard.access.snapshots import Snapshots
from runyard.access.tokens import Tokens
from runyard.assets.registry import Assets
from runyard.assets.secrets import Secrets
from runyard.assets.workspaces import Workspaces
from runyard.core.principal import Principal
from runyard.data.datasets.attempt_data import AttemptData
from runyard.data.datasets.dataset_registry import Datasets
from runyard.data.datasets.datastore_files import DatastoreFiles
from runyard.data.datasets.datastore_registry import Datastores
from runyard.data.datasets.lineage import Lineage
from runyard.data.datasets.outputs import OutputDatasets
from runyard.environments.workspace.built_environments import BuiltEnvironments
from runyard.environments.workspace.labels import EnvironmentLabels
from runyard.environments.workspace.locks import EnvironmentLocks
from runyard.environments.workspace.package_settings import AttemptPackages, WorkspacePackages
from runyard.models.lineage import ModelLineages
from runyard.models.packages import Packages
from runyard.models.profiles import Profiles
from runyard.runs.compute_targets import ComputeTargets
from runyard.runs.history.files import ClientBlobs, RunFiles
from runyard.runs.history.journals import Journals
from runyard.runs.history.log_stream import LogFollowers
from runyard.runs.history.logs import Logs
from runyard.runs.history.metrics import Metrics
from runyard.runs.history.notifications import Notifier
from runyard.runs.history.ranks import Ranks
from runyard.runs.kinds.build import Builds
from runyard.runs.kinds.registry import RunKinds
from runyard.runs.kinds.sweep.views import SweepListing, SweepViews
from runyard.runs.overview import RunOverviews
from runyard.runs.rerun import Reruns
from runyard.runs.runs import Runs
from runyard.runs.scheduling.controller import RunController
from runyard.runs.submit import Submissions
from runyard.runs.transfer.exports import RunExports
from runyard.runs.transfer.imports import RunImports
from runyard.server.garbage_collection import GarbageCollector
from runyard.server.metrics.server_metrics import ServerMetrics
from runyard.serving.deployments.endpoints import Endpoints
from runyard.serving.deployments.keys import ServiceKeys
from runyard.serving.deployments.reconciler import ServiceReconciler
from runyard.serving.deployments.records import ServiceRecords
from runyard.serving.deployments.web_services import WebServices


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
    followers: LogFollowers
    files: RunFiles
    blobs: ClientBlobs
    snapshots: Snapshots
    assets: Assets
    computes: ComputeTargets
    environments: EnvironmentLocks
    environment_labels: EnvironmentLabels
    built_environments: BuiltEnvironments
    builds: Builds
    package_settings: WorkspacePackages
    attempt_packages: AttemptPackages
    reruns: Reruns
    datastores: Datastores
    store_files: DatastoreFiles
    datasets: Datasets
    attempt_data: AttemptData
    outputs: OutputDatasets
    lineage: Lineage
    secrets: Secrets
    web_services: WebServices
    endpoints: Endpoints
    service_records: ServiceRecords
    service_keys: ServiceKeys
    service_reconciler: ServiceReconciler
    model_lineages: ModelLineages
    packages: Packages
    profiles: Profiles
    run_exports: RunExports
    run_imports: RunImports
    upkeep: GarbageCollector
    overviews: RunOverviews
    controller: RunController
    kinds: RunKinds
    tokens: Tokens
    access: Access
    notifier: Notifier
    server_metrics: ServerMetrics


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def caller_of(request: Request) -> Principal:
    caller: Principal = request.state.caller
    return caller


ServicesDep = Annotated[Services, Depends(services_of)]
CallerDep = Annotated[Principal, Depends(caller_of)]
