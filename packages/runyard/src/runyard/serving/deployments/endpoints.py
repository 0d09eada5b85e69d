from dataclasses import replace

from runyard.access.authorization import Access
from runyard.assets.workspaces import Workspaces
from runyard.core.errors import Conflict
from runyard.core.names import check_asset_name
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset
from runyard.core.records.web_services import ServiceType
from runyard.serving.deployments.config import checked_config
from runyard.serving.deployments.credentials import ServiceCredentials, new_credentials
from runyard.serving.deployments.parameters import checked_parameters
from runyard.serving.deployments.planner import DeploymentDraft, DeploymentPlanner
from runyard.serving.deployments.versions import (
    ENDPOINT,
    VERSIONS,
    EndpointVersion,
    check_version_name,
    find_version,
    is_endpoint,
    split_config,
    version_asset_name,
    version_change,
    version_config,
    versions_in,
    versions_to_json,
    with_change,
    with_version,
    without_version,
)
from runyard.serving.deployments.web_services import NewService, ServiceChanges, WebServices
from runyard.serving.deployments.writer import KIND, ServiceWriter


class Endpoints:
    """Deploys endpoints and their versions. Each version is deployed and changed as a web service of its own.

    A version is added before the endpoint lists it, and removed after. So the endpoint never sends a request to a
    version that does not exist.
    """

    def __init__(
        self,
        services: WebServices,
        workspaces: Workspaces,
        access: Access,
        planner: DeploymentPlanner,
        credentials: ServiceCredentials,
        writer: ServiceWriter,
    ) -> None:
        self._services, self._workspaces, self._access, self._planner = services, workspaces, access, planner
        self._credentials, self._writer = credentials, writer

    def deploy(self, who: Principal, workspace: str, new: NewService) -> Asset:
        """Deploy it with its first version, named by version_name of the config. As WebServices.deploy otherwise; an
        overwritten web service is removed first."""
        self._workspaces.enter(who, Action.DEPLOY, workspace)
        check_asset_name(KIND, new.name)
        config = checked_config(new.spec.type or ServiceType.AKS, new.spec.config)
        of_endpoint, of_version = split_config(config)
        name, change = check_version_name(config["version_name"]), version_change(config)
        with_version((), name, "", change)
        draft = self._planner.draft(who, workspace, replace(new.spec, config=of_version))
        endpoint = self._planner.endpoint_draft(of_endpoint, ())
        with self._writer.lock:
            there = self._services.find_overwritten(who, workspace, new)
            self._services.check_port(who, endpoint.body["config"].get("port"), there)
            if there is not None:
                self._services.remove(there)
            version = self._add(who, workspace, new.name, replace(new, name=name), draft)
            texts = {"description": new.description, "properties": dict(new.properties)}
            body = {**endpoint.body, **texts, VERSIONS: versions_to_json(with_version((), name, version.id, change))}
            try:
                credentials = new_credentials(endpoint.secrets)
                return self._writer.add(workspace, new.name, body, new.tags, credentials, who.name)
            except BaseException:
                self._writer.remove(version)
                raise

    def add_version(self, who: Principal, workspace: str, endpoint: str, new: NewService) -> Asset:
        """`new` has the version's name. Returns the endpoint; it sends the version no requests before it is ready."""
        self._workspaces.enter(who, Action.DEPLOY, workspace)
        check_version_name(new.name)
        config = checked_config(ServiceType.AKS, new.spec.config)
        change, spec = version_change(config), replace(new.spec, type=ServiceType.AKS, config=version_config(config))
        self._changeable(who, workspace, endpoint)
        draft = self._planner.draft(who, workspace, spec)
        with self._writer.lock:
            seen = self._changeable(who, workspace, endpoint)
            with_version(versions_in(seen), new.name, "", change)
            version = self._add(who, workspace, endpoint, new, draft)
            try:
                return self._share(seen, with_version(versions_in(seen), new.name, version.id, change))
            except BaseException:
                self._writer.remove(version)
                raise

    def change_version(
        self, who: Principal, workspace: str, endpoint: str, version: str, changes: ServiceChanges
    ) -> Asset:
        """Change a version as WebServices.change does; also its share of the requests, which applies at once."""
        self._changeable(who, workspace, endpoint)
        config = checked_parameters(ServiceType.AKS, changes.spec.config)
        own = version_config(config)
        with self._writer.lock:
            seen = self._changeable(who, workspace, endpoint)
            versions = with_change(versions_in(seen), version, version_change(config))
            has_texts = changes.description is not None or changes.tags or changes.properties
            if own or has_texts or changes.spec.redefines:
                changed = replace(changes, spec=replace(changes.spec, config=own))
                self._services.change(who, workspace, version_asset_name(endpoint, version), changed)
            return seen if versions == versions_in(seen) else self._share(seen, versions)

    def remove_version(self, who: Principal, workspace: str, endpoint: str, version: str) -> None:
        """Raises Conflict for the default version."""
        with self._writer.lock:
            seen = self._changeable(who, workspace, endpoint)
            versions = without_version(versions_in(seen), version)
            name = version_asset_name(endpoint, version)
            left = self._services.get(who, workspace, name, Action.CHANGE_DEPLOYMENT)
            self._share(seen, versions)
            self._writer.forget(left)
        self._writer.end(left)

    def version(self, who: Principal, workspace: str, endpoint: str, version: str) -> Asset:
        """The version as a web service. Raises NotFound."""
        find_version(versions_in(self._endpoint(who, workspace, endpoint)), version)
        return self._services.get(who, workspace, version_asset_name(endpoint, version))

    def _changeable(self, who: Principal, workspace: str, name: str) -> Asset:
        """The endpoint, after checking that the caller may change it."""
        self._access.right(who, Action.CHANGE_DEPLOYMENT)
        return self._access.asset(who, Action.CHANGE_DEPLOYMENT, self._endpoint(who, workspace, name))

    def _endpoint(self, who: Principal, workspace: str, name: str) -> Asset:
        found = self._services.get(who, workspace, name)
        if not is_endpoint(found):
            raise Conflict(
                f"The web service {name!r} is no endpoint, so it has no versions.",
                hint="Deploy one with AksEndpoint.deploy_configuration(version_name=...).",
            )
        return found

    def _add(self, who: Principal, workspace: str, endpoint: str, new: NewService, draft: DeploymentDraft) -> Asset:
        name = version_asset_name(endpoint, new.name)
        left = self._writer.find(workspace, name)
        if left is not None:
            self._writer.remove(left)
        texts = {"description": new.description, "properties": dict(new.properties), ENDPOINT: endpoint}
        return self._writer.add(workspace, name, {**draft.body, **texts}, new.tags, new_credentials({}), who.name)

    def _share(self, endpoint: Asset, versions: tuple[EndpointVersion, ...]) -> Asset:
        body, credentials = {**endpoint.body, VERSIONS: versions_to_json(versions)}, self._credentials.of(endpoint)
        return self._writer.replace(endpoint, body, endpoint.tags, credentials, is_forced=False)
