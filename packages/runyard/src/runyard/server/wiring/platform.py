"""Dependency wiring: the one place that builds stores, use cases, controller and application."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard.access.snapshots import Snapshots
from runyard.assets.registry import Assets, KindRules
from runyard.assets.secrets import Secrets, Vault
from runyard.assets.workspaces import Workspaces
from runyard.compute.clusters import Clusters
from runyard.compute.sites import ComputeSites, build_sites
from runyard.core.records.assets import AssetKind
from runyard.core.records.data import StoreAccess
from runyard.core.records.runs import RunRecord
from runyard.core.run_folders import environments_root, script_folders
from runyard.core.settings import Settings
from runyard.data.datasets.attempt_data import AttemptData
from runyard.data.datasets.dataset_registry import DatasetRules, Datasets
from runyard.data.datasets.datastore_files import DatastoreFiles
from runyard.data.datasets.datastore_registry import DatastoreRules, Datastores
from runyard.data.datasets.lineage import Lineage
from runyard.data.datasets.network_policy import NetworkPolicy
from runyard.data.datasets.open_datastores import OpenDatastores
from runyard.data.datasets.outputs import OutputDatasets
from runyard.data.datasets.pins import Pins
from runyard.data.transfers import BlockCache, cache_limit
from runyard.environments.builder import prune_environments
from runyard.environments.compiled_wheels import CompiledWheels
from runyard.environments.package_sources import BuildSettings
from runyard.environments.workspace.environment_kind import EnvironmentKind
from runyard.environments.workspace.labels import EnvironmentLabels
from runyard.environments.workspace.locks import EnvironmentLocks
from runyard.environments.workspace.package_settings import AttemptPackages
from runyard.models.lineage import ModelLineages
from runyard.models.model_kinds import ImageKind, ModelKind
from runyard.models.packages import Packages
from runyard.models.profiles import DatasetLines, Profiles
from runyard.runs.compute_targets import ComputeRules, ComputeTargets
from runyard.runs.direct_inputs import DirectInputs
from runyard.runs.history.files import ClientBlobs, RunFiles
from runyard.runs.history.journals import Delivered, Journals, OnDelivered
from runyard.runs.history.log_stream import LogFollowers
from runyard.runs.history.logs import Logs
from runyard.runs.history.metrics import Metrics
from runyard.runs.history.ranks import Ranks
from runyard.runs.kinds.build import Builds
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.sweep.views import SweepListing, SweepViews
from runyard.runs.overview import RunOverviews
from runyard.runs.rerun import Reruns
from runyard.runs.runs import Runs
from runyard.runs.scheduling.controller import RunController
from runyard.runs.scheduling.launcher import LaunchDependencies
from runyard.runs.submit import Submissions
from runyard.runs.transfer.exports import RunExports, TransferStores
from runyard.runs.transfer.imports import RunImports
from runyard.server.app import build_app
from runyard.server.garbage_collection import Cache, GarbageCollector
from runyard.server.lifecycle.discovery import host_name
from runyard.server.metrics.counters import RunCounters
from runyard.server.metrics.server_metrics import ServerMetrics
from runyard.server.metrics.traces import TraceExport, has_endpoint
from runyard.server.services import Services
from runyard.server.wiring.core import Core, open_core
from runyard.server.wiring.environments import EnvironmentServices, build_environments
from runyard.server.wiring.web_services import ServingServices, build_serving
from runyard.serving.gateway.service_host import LocalServiceHost
from runyard.storage.home import MIN_FREE_BYTES
from runyard.storage.sql.database import Database

if TYPE_CHECKING:
    from runyard.server.http.application import Application


@dataclass(frozen=True)
class Platform:
    """The built service."""

    app: "Application"
    services: Services
    controller: RunController
    core: Core
    sites: ComputeSites
    traces: TraceExport | None

    def close(self, release: Callable[[], None] = lambda: None) -> None:
        """Stop all parts. Calls `release` after the last write, before the database is closed."""
        self.services.service_reconciler.stop()
        self.controller.stop()
        self.sites.close()
        self.app.state.access_log.close()
        if self.traces is not None:
            self.traces.close()
        release()
        self.core.stores.close()


def build(
    settings: Settings,
    owner_token: str,
    *,
    base_url: str,
    stop: Callable[[], None],
    hold: Callable[[Database], None] = lambda database: None,
) -> Platform:
    """Build the service. `base_url` is its address; `stop` ends it and must not block; `hold` returns once this process
    may write to the database."""
    base = open_core(settings, owner_token, hold)
    sites = build_sites(
        settings,
        settings.home,
        base.stores.nodes,
        base.clock,
        url=base_url,
        node_url=settings.node_url,
        node_ca=settings.node_ca,
        on_change=lambda: controller.wake(),
    )
    clusters = Clusters(base.stores.assets, sites)
    workspaces = Workspaces(base.stores.assets, base.runs, base.clock, base.access)
    data = build_data(base, workspaces)
    environments = build_environments(base, workspaces, data.vault)
    inputs = DirectInputs(base.stores.assets, data.lineage)
    controller = build_controller(base, clusters, data.outputs, environments, inputs)
    base.notifier.on_end(controller.kinds.child_ended)
    host = LocalServiceHost(settings.home)
    server_metrics = build_metrics(base, host)
    serving = build_serving(base, workspaces, data.vault, host, environments)
    services = build_services(
        base, sites, clusters, controller, workspaces, data, serving, environments, inputs, server_metrics
    )
    app = build_app(services, settings, base_url=base_url, shares_files=True, stop=stop)
    # The first start of the agent takes longer than a request may.
    threading.Thread(target=sites.warm, name="warming", daemon=True).start()
    return Platform(app, services, controller, base, sites, build_traces(base))


def build_controller(
    base: Core, clusters: Clusters, outputs: OutputDatasets, environments: EnvironmentServices, inputs: DirectInputs
) -> RunController:
    home = base.settings.home
    dependencies = LaunchDependencies(
        assets=base.stores.assets,
        files=base.stores.files,
        clusters=clusters,
        tokens=base.tokens,
        environments=environments.of_launches,
        gpus=base.gpus,
        refuses_missing_gpus=base.settings.refuses_missing_gpus,
        launched_from=f"{host_name()}:{home}",
        outputs=outputs,
    )
    journals = Journals(
        base.runs, base.stores.metrics, base.clock, base.access, most_names=base.settings.max_metric_names
    )
    tools = KindTools(
        runs=base.runs,
        logs=base.logs,
        metrics=base.stores.metrics,
        trials=base.stores.trials,
        journals=journals,
        inputs=inputs,
        clock=base.clock,
        access=base.access,
        home=home,
        cpus=len(os.sched_getaffinity(0)),
    )
    return RunController(tools, base.stores.parts, dependencies, base.access)


@dataclass(frozen=True)
class DataServices:
    """Use cases of datastores and datasets."""

    vault: Vault
    stores: OpenDatastores
    datastores: Datastores
    store_files: DatastoreFiles
    datasets: Datasets
    lineage: Lineage
    attempt_data: AttemptData
    outputs: OutputDatasets


def build_data(base: Core, workspaces: Workspaces) -> DataServices:
    settings, assets, home = base.settings, base.stores.assets, base.settings.home
    vault = Vault(assets, key_file=home / "secrets.key")
    network = NetworkPolicy(settings)
    stores = OpenDatastores(assets, vault, settings.operator_store or StoreAccess("folder", str(home / "datastores")))
    files = DatastoreFiles(stores, network, base.access, incoming=home / "incoming", attempts=script_folders(home))
    datasets = Datasets(assets, workspaces, stores, files, Pins(base.blobs, base.clock), network, base.access)
    lineage = Lineage(base.stores.lineage, assets, base.runs, base.clock, base.access)
    return DataServices(
        vault=vault,
        stores=stores,
        datastores=Datastores(assets, workspaces, vault, stores, network, settings, base.access),
        store_files=files,
        datasets=datasets,
        lineage=lineage,
        attempt_data=AttemptData(
            base.runs,
            assets,
            datasets,
            stores,
            lineage,
            network,
            base.access,
            refuses_changes=settings.refuse_changed_data,
            name_place=base.tokens.place_name,
        ),
        outputs=OutputDatasets(base.runs, assets, datasets, lineage, base.access),
    )


def build_services(
    base: Core,
    sites: ComputeSites,
    clusters: Clusters,
    controller: RunController,
    workspaces: Workspaces,
    data: DataServices,
    serving: ServingServices,
    made: EnvironmentServices,
    inputs: DirectInputs,
    server_metrics: ServerMetrics,
) -> Services:
    stores, clock, home = base.stores, base.clock, base.settings.home
    attempts = script_folders(home)
    environments = EnvironmentLocks(base.runs, stores.assets, base.callers_blobs, clock, base.access)
    files = RunFiles(stores.files, base.logs, base.callers_blobs, base.access, attempts=attempts)
    snapshots = _snapshots(base)
    moved = TransferStores(base.runs, stores.transfer, base.logs, base.blobs, stores.assets, clock, home / "incoming")
    exports = RunExports(moved, base.access)
    runs = Runs(base.runs, stores.metrics, base.logs, controller, clock, base.access)
    metrics = Metrics(base.runs, stores.metrics, base.access)
    logs = Logs(base.logs, base.access)
    ranks = Ranks(stores.parts, base.logs, base.access)
    packages = _packages(base, workspaces, serving, made)
    rules = _asset_rules(base, data, files, sites, clusters, controller, serving, made)
    assets = Assets(stores.assets, workspaces, base.access, rules)
    submissions = Submissions(
        workspaces, base.runs, stores.assets, snapshots, inputs, made.of_runs, clusters, controller, clock, base.access
    )
    return Services(
        workspaces=workspaces,
        submissions=submissions,
        reruns=Reruns(stores.files, controller.kinds, submissions, base.access),
        builds=Builds(workspaces, base.runs, base.logs, made.of_runs, controller, clock, base.access),
        environment_labels=EnvironmentLabels(stores.assets, workspaces, base.access),
        built_environments=made.built,
        package_settings=made.packages,
        attempt_packages=AttemptPackages(base.runs, made.packages, made.logins, made.addresses, base.access),
        runs=runs,
        ranks=ranks,
        sweeps=SweepListing(stores.trials, base.access),
        sweep_views=SweepViews(SweepListing(stores.trials, base.access), base.runs, stores.metrics),
        journals=Journals(
            base.runs,
            stores.metrics,
            clock,
            base.access,
            count_points(server_metrics, controller.kinds.child_logged),
            base.settings.max_metric_names,
        ),
        metrics=metrics,
        logs=logs,
        followers=LogFollowers(base.runs, base.logs, controller.kinds, base.access),
        files=files,
        blobs=ClientBlobs(base.callers_blobs, base.access, attempts=attempts),
        snapshots=snapshots,
        assets=assets,
        computes=ComputeTargets(stores.assets, clusters, base.access),
        environments=environments,
        datastores=data.datastores,
        store_files=data.store_files,
        datasets=data.datasets,
        attempt_data=data.attempt_data,
        outputs=data.outputs,
        lineage=data.lineage,
        secrets=Secrets(data.vault, workspaces),
        web_services=serving.services,
        endpoints=serving.endpoints,
        service_records=serving.records,
        service_keys=serving.keys,
        service_reconciler=serving.reconciler,
        model_lineages=ModelLineages(assets, stores.assets, base.runs, data.lineage),
        packages=packages,
        run_exports=exports,
        run_imports=RunImports(moved, exports, workspaces),
        profiles=Profiles(
            stores.assets,
            workspaces,
            base.access,
            serving.host,
            serving.planner.plan,
            DatasetLines(data.datasets).read,
        ),
        upkeep=GarbageCollector(
            home,
            base.runs,
            stores.assets,
            stores.files,
            base.callers_blobs,
            clock,
            base.access,
            _caches(base, environments, serving, packages),
        ),
        overviews=RunOverviews(runs, controller.kinds, ranks, data.lineage, metrics, logs, files),
        controller=controller,
        kinds=controller.kinds,
        tokens=base.tokens,
        access=base.access,
        notifier=base.notifier,
        server_metrics=server_metrics,
    )


def _packages(base: Core, workspaces: Workspaces, serving: ServingServices, made: EnvironmentServices) -> Packages:
    return Packages(
        base.settings.home,
        base.stores.assets,
        workspaces,
        base.access,
        base.blobs,
        base.clock,
        serving.planner.plan,
        lambda spec: made.builder(spec.build_variables, BuildSettings(spec.packages, addresses=spec.addresses)),
    )


def _caches(base: Core, kept: EnvironmentLocks, serving: ServingServices, packages: Packages) -> dict[str, Cache]:
    """Caches that `runyard gc` may prune by age alone."""
    home = base.settings.home
    environments = environments_root(home)
    return {
        "data-cache": lambda older_than: _prune_blocks(home / "data-cache", older_than),
        "environments": lambda older_than: prune_environments(
            environments, older_than=older_than, wanted=serving.environments_in_use()
        ),
        "environments/wheels": lambda older_than: CompiledWheels(environments, {}).prune(older_than),
        "environment-locks": kept.prune,
        "services": serving.leftovers.remove,
        "packages": packages.prune,
    }


def _prune_blocks(folder: Path, older_than: timedelta) -> list[str]:
    cache = BlockCache(folder, cache_limit(folder))
    try:
        return cache.prune(older_than)
    finally:
        cache.close()


def _asset_rules(
    base: Core,
    data: DataServices,
    files: RunFiles,
    sites: ComputeSites,
    clusters: Clusters,
    controller: RunController,
    serving: ServingServices,
    made: EnvironmentServices,
) -> dict[AssetKind, KindRules[Any]]:
    """Rules by kind of asset. Secrets and web services have none: only their own routes change them."""
    assets = base.stores.assets
    return {
        AssetKind.MODEL: ModelKind(base.access, files, base.callers_blobs, assets, serving.models_lock),
        AssetKind.IMAGE: ImageKind(assets, serving.planner.checked_image, serving.models_lock),
        AssetKind.ENVIRONMENT: EnvironmentKind(made.incoming),
        AssetKind.DATASET: DatasetRules(),
        AssetKind.DATASTORE: DatastoreRules(assets, data.vault, data.stores, base.access),
        AssetKind.COMPUTE: ComputeRules(base.stores.nodes, base.runs, clusters, controller, sites, base.access),
    }


def _snapshots(base: Core) -> Snapshots:
    settings = base.settings
    return Snapshots(
        base.stores.files,
        base.callers_blobs,
        base.clock,
        warn_bytes=settings.snapshot_warn_bytes,
        max_bytes=settings.snapshot_max_bytes,
    )


def build_metrics(base: Core, host: LocalServiceHost) -> ServerMetrics:
    runs = RunCounters()
    base.notifier.on_end(runs.note_end)
    return ServerMetrics(base.stores.database, base.settings.home, runs, host.figures, MIN_FREE_BYTES)


def build_traces(base: Core) -> TraceExport | None:
    """None where no OTLP endpoint is configured."""
    if not has_endpoint(os.environ):
        return None
    traces = TraceExport(base.stores.runs)
    base.notifier.on_end(traces.note_end)
    return traces


def count_points(metrics: ServerMetrics, listener: OnDelivered) -> OnDelivered:
    """Wrap a metric listener so that logged points are counted first."""

    def count(run: RunRecord, delivered: Delivered) -> None:
        metrics.runs.note_points(sum(len(batch.values) for batch in delivered.batches))
        listener(run, delivered)

    return count
