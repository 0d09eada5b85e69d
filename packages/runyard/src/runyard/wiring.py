"""Dependency wiring: the one place that builds stores, use cases, controller and application."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard.compute.sites import KnownSites, build_sites
from runyard.environments.compiled import CompiledWheels
from runyard.environments.making import prune
from runyard.environments.provisions import Provisions
from runyard.figures.figures import Figures
from runyard.figures.traces import TraceExport
from runyard.foundation import Foundation, lay_foundation
from runyard.http.app import build_app
from runyard.http.context import Services
from runyard.lifecycle.discovery import host_name
from runyard.model.assets import AssetKind
from runyard.model.data import StoreAccess
from runyard.run_folders import environments_root, script_folders
from runyard.runs.direct_inputs import DirectInputs
from runyard.runs.history.files import Blobs, RunFiles
from runyard.runs.history.following import Followers
from runyard.runs.history.journals import Journals
from runyard.runs.history.logs import Logs
from runyard.runs.history.metrics import Metrics
from runyard.runs.history.ranks import Ranks
from runyard.runs.kinds.build import Builds
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.sweep.views import SweepListing, SweepViews
from runyard.runs.overview import Overviews
from runyard.runs.reruns import Reruns
from runyard.runs.runs import Runs
from runyard.runs.scheduling.controller import Controller
from runyard.runs.scheduling.launching import Surroundings
from runyard.runs.scheduling.places import Places
from runyard.runs.snapshots import Snapshots
from runyard.runs.submission import Submissions
from runyard.runs.transfer.exporting import Moved, RunExports
from runyard.runs.transfer.importing import RunImports
from runyard.services.assets import Assets, KindRules
from runyard.services.attempt_packages import AttemptPackages
from runyard.services.computes import ComputeRules, Computes
from runyard.services.data.attempt_data import AttemptData
from runyard.services.data.datasets import DatasetRules, Datasets
from runyard.services.data.datastores import DatastoreRules, Datastores
from runyard.services.data.lineage import Lineage
from runyard.services.data.network import Network
from runyard.services.data.open_stores import OpenStores
from runyard.services.data.outputs import Outputs
from runyard.services.data.pinning import Pins
from runyard.services.data.store_files import StoreFiles
from runyard.services.environment_labels import EnvironmentLabels
from runyard.services.environments import Environments
from runyard.services.kinds import EnvironmentKind, ImageKind, ModelKind
from runyard.services.model_work.dataset_lines import DatasetLines
from runyard.services.model_work.packaging import Packages
from runyard.services.model_work.profiling import Profiles
from runyard.services.secrets import Secrets, Vault
from runyard.services.upkeep import Cache, Upkeep
from runyard.services.web_services.model_lineage import ModelLineages
from runyard.services.workspaces import Workspaces
from runyard.serving.host import LocalServiceHost
from runyard.settings import Settings
from runyard.stores.database import Database
from runyard.transfers import BlockCache, cache_limit
from runyard.wiring_environments import EnvironmentServices, build_environments
from runyard.wiring_figures import build_figures, build_traces, counting_points
from runyard.wiring_web_services import Serving, build_serving

if TYPE_CHECKING:
    from fastapi import FastAPI


@dataclass(frozen=True)
class Platform:
    """The built service."""

    app: "FastAPI"
    services: Services
    controller: Controller
    core: Foundation
    sites: KnownSites
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
    base = lay_foundation(settings, owner_token, hold)
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
    clusters = Places(base.stores.assets, sites)
    workspaces = Workspaces(base.stores.assets, base.runs, base.clock, base.access)
    data = build_data(base, workspaces)
    environments = build_environments(base, workspaces, data.vault)
    inputs = DirectInputs(base.stores.assets, data.lineage)
    controller = build_controller(base, clusters, data.outputs, environments, inputs)
    base.notifier.on_end(controller.kinds.child_ended)
    host = LocalServiceHost(settings.home)
    server_metrics = build_figures(base, host)
    serving = build_serving(base, workspaces, data.vault, host, environments)
    services = build_services(
        base, sites, clusters, controller, workspaces, data, serving, environments, inputs, server_metrics
    )
    app = build_app(services, settings, base_url=base_url, shares_files=True, stop=stop)
    # The first start of the agent takes longer than a request may.
    threading.Thread(target=sites.warm, name="warming", daemon=True).start()
    return Platform(app, services, controller, base, sites, build_traces(base))


def build_controller(
    base: Foundation, clusters: Places, outputs: Outputs, environments: EnvironmentServices, inputs: DirectInputs
) -> Controller:
    home = base.settings.home
    dependencies = Surroundings(
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
    return Controller(tools, base.stores.parts, dependencies, base.access)


@dataclass(frozen=True)
class Data:
    """Use cases of datastores and datasets."""

    vault: Vault
    stores: OpenStores
    datastores: Datastores
    store_files: StoreFiles
    datasets: Datasets
    lineage: Lineage
    attempt_data: AttemptData
    outputs: Outputs


def build_data(base: Foundation, workspaces: Workspaces) -> Data:
    settings, assets, home = base.settings, base.stores.assets, base.settings.home
    vault = Vault(assets, key_file=home / "secrets.key")
    network = Network(settings)
    stores = OpenStores(assets, vault, settings.operator_store or StoreAccess("folder", str(home / "datastores")))
    files = StoreFiles(stores, network, base.access, incoming=home / "incoming", attempts=script_folders(home))
    datasets = Datasets(assets, workspaces, stores, files, Pins(base.blobs, base.clock), network, base.access)
    lineage = Lineage(base.stores.lineage, assets, base.runs, base.clock, base.access)
    return Data(
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
        outputs=Outputs(base.runs, assets, datasets, lineage, base.access),
    )


def build_services(
    base: Foundation,
    sites: KnownSites,
    clusters: Places,
    controller: Controller,
    workspaces: Workspaces,
    data: Data,
    serving: Serving,
    made: EnvironmentServices,
    inputs: DirectInputs,
    server_metrics: Figures,
) -> Services:
    stores, clock, home = base.stores, base.clock, base.settings.home
    attempts = script_folders(home)
    environments = Environments(base.runs, stores.assets, base.callers_blobs, clock, base.access)
    files = RunFiles(stores.files, base.logs, base.callers_blobs, base.access, attempts=attempts)
    snapshots = _snapshots(base)
    moved = Moved(base.runs, stores.transfer, base.logs, base.blobs, stores.assets, clock, home / "incoming")
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
            counting_points(server_metrics, controller.kinds.child_logged),
            base.settings.max_metric_names,
        ),
        metrics=metrics,
        logs=logs,
        followers=Followers(base.runs, base.logs, controller.kinds, base.access),
        files=files,
        blobs=Blobs(base.callers_blobs, base.access, attempts=attempts),
        snapshots=snapshots,
        assets=assets,
        computes=Computes(stores.assets, clusters, base.access),
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
            serving.blueprints.plan,
            DatasetLines(data.datasets).read,
        ),
        upkeep=Upkeep(
            home,
            base.runs,
            stores.assets,
            stores.files,
            base.callers_blobs,
            clock,
            base.access,
            _caches(base, environments, serving, packages),
        ),
        overviews=Overviews(runs, controller.kinds, ranks, data.lineage, metrics, logs, files),
        controller=controller,
        kinds=controller.kinds,
        tokens=base.tokens,
        access=base.access,
        notifier=base.notifier,
        server_metrics=server_metrics,
    )


def _packages(base: Foundation, workspaces: Workspaces, serving: Serving, made: EnvironmentServices) -> Packages:
    return Packages(
        base.settings.home,
        base.stores.assets,
        workspaces,
        base.access,
        base.blobs,
        base.clock,
        serving.blueprints.plan,
        lambda spec: made.builder(spec.build_variables, Provisions(spec.packages, addresses=spec.addresses)),
    )


def _caches(base: Foundation, kept: Environments, serving: Serving, packages: Packages) -> dict[str, Cache]:
    """Caches that `runyard gc` may prune by age alone."""
    home = base.settings.home
    environments = environments_root(home)
    return {
        "data-cache": lambda older_than: _prune_blocks(home / "data-cache", older_than),
        "environments": lambda older_than: prune(
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
    base: Foundation,
    data: Data,
    files: RunFiles,
    sites: KnownSites,
    clusters: Places,
    controller: Controller,
    serving: Serving,
    made: EnvironmentServices,
) -> dict[AssetKind, KindRules[Any]]:
    """Rules by kind of asset. Secrets and web services have none: only their own routes change them."""
    assets = base.stores.assets
    return {
        AssetKind.MODEL: ModelKind(base.access, files, base.callers_blobs, assets, serving.models_stay),
        AssetKind.IMAGE: ImageKind(assets, serving.blueprints.checked_image, serving.models_stay),
        AssetKind.ENVIRONMENT: EnvironmentKind(made.incoming),
        AssetKind.DATASET: DatasetRules(),
        AssetKind.DATASTORE: DatastoreRules(assets, data.vault, data.stores, base.access),
        AssetKind.COMPUTE: ComputeRules(base.stores.nodes, base.runs, clusters, controller, sites, base.access),
    }


def _snapshots(base: Foundation) -> Snapshots:
    settings = base.settings
    return Snapshots(
        base.stores.files,
        base.callers_blobs,
        base.clock,
        warn_bytes=settings.snapshot_warn_bytes,
        max_bytes=settings.snapshot_max_bytes,
    )
