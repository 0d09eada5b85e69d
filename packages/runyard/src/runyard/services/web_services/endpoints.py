from dataclasses import replace

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
from runyard.services.web_services.blueprints import Blueprints, Body, Draft, service_type
from runyard.services.web_services.credentials import ServiceCredentials, new_credentials
from runyard.services.web_services.versions import (
    ENDPOINT,
    VERSIONS,
    is_endpoint,
    stored,
    version_asset_name,
    versions_in,
)
from runyard.services.web_services.web_services import NewService, WebServices
from runyard.services.web_services.writing import KIND, ServiceWriter

_CHANGES = ("models", "inference", "image_id", "tags", "properties")


class Endpoints:
    """Endpoints, whose requests several versions share. Each version is deployed and changed by itself, as any web
    service is: none of that touches another version.

    The version comes first and the endpoint's word of it second; when one goes it is the other way round. So no request
    is ever meant for a version that is not there.
    """

    def __init__(
        self, services: WebServices, blueprints: Blueprints, credentials: ServiceCredentials, writer: ServiceWriter
    ) -> None:
        self._services, self._blueprints = services, blueprints
        self._credentials, self._writer = credentials, writer

    def deploy(self, workspace: str, new: NewService) -> Asset:
        """With its first version, whose name is version_name of the config. As WebServices.deploy otherwise; one that
        is overwritten goes first."""
        check_asset_name(KIND, new.name)
        config = checked_config(service_type(new.definition.get("type")), new.definition["config"])
        of_endpoint, of_version = parted_config(config)
        name, wish = check_version_name(config["version_name"]), wish_of(config)
        with_version((), name, "", wish)
        draft = self._blueprints.draft(workspace, {**new.definition, "config": of_version})
        around = self._blueprints.endpoint_draft(of_endpoint, ())
        with self._writer.turn:
            there = self._services.find_place(workspace, new)
            self._services.check_port(around.body, there)
            if there is not None:
                self._services.remove(there)
            version = self._add(workspace, new.name, replace(new, name=name), draft)
            told = {"description": new.description, "properties": dict(new.properties)}
            body = {**around.body, **told, VERSIONS: stored(with_version((), name, version.id, wish))}
            try:
                return self._writer.add(workspace, new.name, body, new.tags, new_credentials(around.secrets))
            except BaseException:
                self._writer.remove(version)
                raise

    def add_version(self, workspace: str, endpoint: str, new: NewService) -> Asset:
        """`new` has the version's name. Returns the endpoint; it sends nothing to the version before that is ready."""
        check_version_name(new.name)
        config = checked_config(ServiceType.AKS, new.definition.get("config") or {})
        wish, whole = wish_of(config), {**new.definition, "type": ServiceType.AKS.value}
        self._endpoint(workspace, endpoint)
        draft = self._blueprints.draft(workspace, {**whole, "config": version_config(config)})
        with self._writer.turn:
            seen = self._endpoint(workspace, endpoint)
            with_version(versions_in(seen), new.name, "", wish)
            version = self._add(workspace, endpoint, new, draft)
            try:
                return self._share(seen, with_version(versions_in(seen), new.name, version.id, wish))
            except BaseException:
                self._writer.remove(version)
                raise

    def change_version(self, workspace: str, endpoint: str, version: str, changes: Body) -> Asset:
        """As WebServices.change, and who gets how much; that counts at once."""
        config = checked_parameters(ServiceType.AKS, changes.get("config") or {})
        own = version_config(config)
        with self._writer.turn:
            seen = self._endpoint(workspace, endpoint)
            versions = with_change(versions_in(seen), version, wish_of(config))
            if own or changes.get("description") is not None or any(changes.get(name) for name in _CHANGES):
                self._services.change(workspace, version_asset_name(endpoint, version), {**changes, "config": own})
            return seen if versions == versions_in(seen) else self._share(seen, versions)

    def remove_version(self, workspace: str, endpoint: str, version: str) -> None:
        """Raises Conflict for the default version."""
        with self._writer.turn:
            seen = self._endpoint(workspace, endpoint)
            self._share(seen, without_version(versions_in(seen), version))
            left = self._services.get(workspace, version_asset_name(endpoint, version))
            self._writer.forget(left)
        self._writer.end(left)

    def version(self, workspace: str, endpoint: str, version: str) -> Asset:
        """The web service that answers for it. Raises NotFound."""
        find_version(versions_in(self._endpoint(workspace, endpoint)), version)
        return self._services.get(workspace, version_asset_name(endpoint, version))

    def _endpoint(self, workspace: str, name: str) -> Asset:
        found = self._services.get(workspace, name)
        if not is_endpoint(found):
            raise Conflict(
                f"The web service {name!r} is no endpoint, so it has no versions.",
                hint="Deploy one with AksEndpoint.deploy_configuration(version_name=...).",
            )
        return found

    def _add(self, workspace: str, endpoint: str, new: NewService, draft: Draft) -> Asset:
        name = version_asset_name(endpoint, new.name)
        left = self._writer.find(workspace, name)
        if left is not None:
            self._writer.remove(left)
        told = {"description": new.description, "properties": dict(new.properties), ENDPOINT: endpoint}
        return self._writer.add(workspace, name, {**draft.body, **told}, new.tags, new_credentials({}))

    def _share(self, endpoint: Asset, versions: tuple[Version, ...]) -> Asset:
        body, credentials = {**endpoint.body, VERSIONS: stored(versions)}, self._credentials.of(endpoint)
        return self._writer.replace(endpoint, body, endpoint.tags, credentials, is_forced=False)
