from dataclasses import replace

from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.errors import Conflict
from runyard.model.assets import Asset
from runyard.model.names import check_asset_name
from runyard.model.web_services import ServiceType
from runyard.planning.web_services.endpoint import (
    Version,
    check_version_name,
    find_version,
    parted_config,
    version_config,
    wish_of,
    with_change,
    with_version,
    without_version,
)
from runyard.planning.web_services.service_config import checked_config
from runyard.planning.web_services.service_parameters import checked_parameters
from runyard.services.access import Access
from runyard.services.web_services.blueprints import Blueprints, Draft
from runyard.services.web_services.credentials import ServiceCredentials, new_credentials
from runyard.services.web_services.versions import (
    ENDPOINT,
    VERSIONS,
    is_endpoint,
    stored,
    version_asset_name,
    versions_in,
)
from runyard.services.web_services.web_services import NewService, ServiceChanges, WebServices
from runyard.services.web_services.writing import KIND, ServiceWriter
from runyard.services.workspaces import Workspaces


class Endpoints:
    """Endpoints, whose requests several versions share. Each version is deployed and changed by itself, as any web
    service is: none of that touches another version.

    The version comes first and the endpoint's word of it second; when one goes it is the other way round. So no request
    is ever meant for a version that is not there.
    """

    def __init__(
        self,
        services: WebServices,
        workspaces: Workspaces,
        access: Access,
        blueprints: Blueprints,
        credentials: ServiceCredentials,
        writer: ServiceWriter,
    ) -> None:
        self._services, self._workspaces, self._access, self._blueprints = services, workspaces, access, blueprints
        self._credentials, self._writer = credentials, writer

    def deploy(self, who: Principal, workspace: str, new: NewService) -> Asset:
        """With its first version, whose name is version_name of the config. As WebServices.deploy otherwise; one that
        is overwritten goes first."""
        self._workspaces.enter(who, Action.DEPLOY, workspace)
        check_asset_name(KIND, new.name)
        config = checked_config(new.spec.type or ServiceType.AKS, new.spec.config)
        of_endpoint, of_version = parted_config(config)
        name, wish = check_version_name(config["version_name"]), wish_of(config)
        with_version((), name, "", wish)
        draft = self._blueprints.draft(who, workspace, replace(new.spec, config=of_version))
        around = self._blueprints.endpoint_draft(of_endpoint, ())
        with self._writer.turn:
            there = self._services.find_place(who, workspace, new)
            self._services.check_port(who, around.body["config"].get("port"), there)
            if there is not None:
                self._services.remove(there)
            version = self._add(who, workspace, new.name, replace(new, name=name), draft)
            told = {"description": new.description, "properties": dict(new.properties)}
            body = {**around.body, **told, VERSIONS: stored(with_version((), name, version.id, wish))}
            try:
                credentials = new_credentials(around.secrets)
                return self._writer.add(workspace, new.name, body, new.tags, credentials, who.name)
            except BaseException:
                self._writer.remove(version)
                raise

    def add_version(self, who: Principal, workspace: str, endpoint: str, new: NewService) -> Asset:
        """`new` has the version's name. Returns the endpoint; it sends nothing to the version before that is ready."""
        self._workspaces.enter(who, Action.DEPLOY, workspace)
        check_version_name(new.name)
        config = checked_config(ServiceType.AKS, new.spec.config)
        wish, whole = wish_of(config), replace(new.spec, type=ServiceType.AKS, config=version_config(config))
        self._changed(who, workspace, endpoint)
        draft = self._blueprints.draft(who, workspace, whole)
        with self._writer.turn:
            seen = self._changed(who, workspace, endpoint)
            with_version(versions_in(seen), new.name, "", wish)
            version = self._add(who, workspace, endpoint, new, draft)
            try:
                return self._share(seen, with_version(versions_in(seen), new.name, version.id, wish))
            except BaseException:
                self._writer.remove(version)
                raise

    def change_version(
        self, who: Principal, workspace: str, endpoint: str, version: str, changes: ServiceChanges
    ) -> Asset:
        """As WebServices.change, and who gets how much; that counts at once."""
        self._changed(who, workspace, endpoint)
        config = checked_parameters(ServiceType.AKS, changes.spec.config)
        own = version_config(config)
        with self._writer.turn:
            seen = self._changed(who, workspace, endpoint)
            versions = with_change(versions_in(seen), version, wish_of(config))
            told = changes.description is not None or changes.tags or changes.properties
            if own or told or changes.spec.redefines:
                changed = replace(changes, spec=replace(changes.spec, config=own))
                self._services.change(who, workspace, version_asset_name(endpoint, version), changed)
            return seen if versions == versions_in(seen) else self._share(seen, versions)

    def remove_version(self, who: Principal, workspace: str, endpoint: str, version: str) -> None:
        """Raises Conflict for the default version."""
        with self._writer.turn:
            seen = self._changed(who, workspace, endpoint)
            versions = without_version(versions_in(seen), version)
            name = version_asset_name(endpoint, version)
            left = self._services.get(who, workspace, name, Action.CHANGE_DEPLOYMENT)
            self._share(seen, versions)
            self._writer.forget(left)
        self._writer.end(left)

    def version(self, who: Principal, workspace: str, endpoint: str, version: str) -> Asset:
        """The web service that answers for it. Raises NotFound."""
        find_version(versions_in(self._endpoint(who, workspace, endpoint)), version)
        return self._services.get(who, workspace, version_asset_name(endpoint, version))

    def _changed(self, who: Principal, workspace: str, name: str) -> Asset:
        """The endpoint, which the caller may change."""
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

    def _add(self, who: Principal, workspace: str, endpoint: str, new: NewService, draft: Draft) -> Asset:
        name = version_asset_name(endpoint, new.name)
        left = self._writer.find(workspace, name)
        if left is not None:
            self._writer.remove(left)
        told = {"description": new.description, "properties": dict(new.properties), ENDPOINT: endpoint}
        return self._writer.add(workspace, name, {**draft.body, **told}, new.tags, new_credentials({}), who.name)

    def _share(self, endpoint: Asset, versions: tuple[Version, ...]) -> Asset:
        body, credentials = {**endpoint.body, VERSIONS: stored(versions)}, self._credentials.of(endpoint)
        return self._writer.replace(endpoint, body, endpoint.tags, credentials, is_forced=False)
