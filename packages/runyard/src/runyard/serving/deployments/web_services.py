from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runyard.access.authorization import Access
from runyard.assets.kinds import added_properties
from runyard.assets.workspaces import Workspaces
from runyard.core.definitions.deployment import DeploymentSpec, service_type
from runyard.core.definitions.fields import Tags
from runyard.core.errors import AlreadyExists, Conflict, InvalidArgument, NotFound
from runyard.core.names import check_asset_name
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset
from runyard.serving.deployments.config import changed_config
from runyard.serving.deployments.credentials import ServiceCredentials, changed_credentials, new_credentials
from runyard.serving.deployments.planner import DeploymentDraft, DeploymentPlanner
from runyard.serving.deployments.service_spec import Credentials
from runyard.serving.deployments.versions import (
    endpoint_field,
    is_endpoint,
    is_version,
    version_asset_name,
    versions_in,
)
from runyard.serving.deployments.writer import KIND, ServiceWriter


@dataclass(frozen=True)
class NewService:
    name: str
    spec: DeploymentSpec
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    overwrite: bool = False


@dataclass(frozen=True)
class ServiceChanges:
    """Changes of a web service. `config` of the spec is merged into the stored one."""

    spec: DeploymentSpec = field(default_factory=DeploymentSpec)
    description: str | None = None
    tags: Mapping[str, str | None] = field(default_factory=dict)
    """None removes a tag."""
    properties: Tags = field(default_factory=dict)
    """Added to the stored ones."""


@dataclass(frozen=True)
class ServiceFilter:
    """Filter for lists; None and empty match any. A tag or property with None matches any value."""

    type: str | None = None
    model: str | None = None
    """NAME or NAME:VERSION, as for images."""
    image: str | None = None
    tags: Mapping[str, str | None] = field(default_factory=dict)
    properties: Mapping[str, str | None] = field(default_factory=dict)
    created_by: str | None = None


class WebServices:
    """Deploys, changes and deletes web services. Does not wait for workers: the host works in the background."""

    def __init__(
        self,
        assets: AssetStore,
        workspaces: Workspaces,
        access: Access,
        planner: DeploymentPlanner,
        credentials: ServiceCredentials,
        writer: ServiceWriter,
    ) -> None:
        self._assets, self._workspaces, self._access, self._planner = assets, workspaces, access, planner
        self._credentials, self._writer = credentials, writer

    def deploy(self, who: Principal, workspace: str, new: NewService) -> Asset:
        """Raises AlreadyExists for a used name, unless `overwrite`: then the old web service answers until the new
        workers are ready."""
        self._workspaces.enter(who, Action.DEPLOY, workspace)
        check_asset_name(KIND, new.name)
        self.find_overwritten(who, workspace, new)
        draft = self._planner.draft(who, workspace, new.spec)
        body = {**draft.body, "description": new.description, "properties": dict(new.properties)}
        with self._writer.lock:
            there = self.find_overwritten(who, workspace, new)
            self.check_port(who, body["config"].get("port"), there)
            if there is not None and is_endpoint(there):
                self.remove(there)
                there = None
            if there is None:
                credentials = new_credentials(draft.secrets)
                return self._writer.add(workspace, new.name, body, new.tags, credentials, who.name)
            credentials = changed_credentials(self._credentials.of(there), draft.secrets)
            return self._writer.replace(there, body, new.tags, credentials, is_forced=True)

    def get(self, who: Principal, workspace: str, name: str, action: Action = Action.READ_ASSET) -> Asset:
        """Get it for an action of the caller. Raises NotFound, which lists the names that exist."""
        self._access.right(who, action)
        self._workspaces.enter(who, Action.READ_ASSET, workspace)
        found = self._writer.find(workspace, name)
        if found is not None:
            return self._access.asset(who, action, found)
        known = ", ".join(f"'{one.name}'" for one in self._listed(workspace)[:20]) or "none"
        raise NotFound(
            f"There is no web service {ascii(name)[:80]} in workspace {workspace!r} (WebserviceNotFound). "
            f"Known: {known}."
        )

    def list(self, who: Principal, workspace: str, wanted: ServiceFilter) -> Sequence[Asset]:
        self._workspaces.enter(who, Action.READ_ASSET, workspace)
        type = service_type(wanted.type) if wanted.type else None
        return [
            service
            for service in self._listed(workspace)
            if (type is None or service.body["type"] == type)
            and _matches_any(wanted.model, self._models_of(service))
            and _matches_any(wanted.image, [service.body["image_id"] or ""])
            and _has(service.tags, wanted.tags)
            and _has(service.body["properties"], wanted.properties)
            and wanted.created_by in (None, service.created_by)
        ]

    def change(self, who: Principal, workspace: str, name: str, changes: ServiceChanges) -> Asset:
        """Start new workers only when the change needs them."""
        with self._writer.lock:
            seen = self.get(who, workspace, name, Action.CHANGE_DEPLOYMENT)
            before = self._credentials.of(seen)
            draft = self._changed(who, seen, before, changes.spec)
            self.check_port(who, draft.body["config"].get("port"), seen)
            description, tags = changes.description, {**seen.tags, **changes.tags}
            body = {
                **draft.body,
                "description": seen.body["description"] if description is None else description,
                "properties": added_properties(seen, changes.properties),
                **endpoint_field(seen),
            }
            return self._writer.replace(
                seen,
                body,
                {key: value for key, value in tags.items() if value is not None},
                changed_credentials(before, draft.secrets),
                is_forced=changes.spec.redefines and self._writer.has_failed(seen),
            )

    def reload(self, who: Principal, workspace: str, name: str) -> Asset:
        """Start new workers from the same files."""
        with self._writer.lock:
            seen = self.get(who, workspace, name, Action.CHANGE_DEPLOYMENT)
            if not is_endpoint(seen):
                return self._reload(seen)
            for version in self._versions_of(seen):
                self._reload(version)
            return seen

    def _reload(self, seen: Asset) -> Asset:
        return self._writer.replace(seen, seen.body, seen.tags, self._credentials.of(seen), is_forced=True)

    def delete(self, who: Principal, workspace: str, name: str) -> None:
        """Does nothing when it does not exist."""
        self._access.right(who, Action.CHANGE_DEPLOYMENT)
        self._workspaces.enter(who, Action.READ_ASSET, workspace)
        with self._writer.lock:
            there = self._writer.find(workspace, name)
            if there is None:
                return
            forgotten = self._forget(self._access.asset(who, Action.CHANGE_DEPLOYMENT, there))
        for one in forgotten:
            self._writer.end(one)

    def remove(self, service: Asset) -> None:
        """Remove it, and the versions of an endpoint. Callers hold the writer's lock."""
        for one in self._forget(service):
            self._writer.end(one)

    def _forget(self, service: Asset) -> Sequence[Asset]:
        """Delete its asset and those of its versions; return all, for the host to end."""
        forgotten = [service, *self._versions_of(service)]
        for one in forgotten:
            self._writer.forget(one)
        return forgotten

    def find_overwritten(self, who: Principal, workspace: str, new: NewService) -> Asset | None:
        """The web service that `new` overwrites; None for a free name. Raises AlreadyExists."""
        there = self._writer.find(workspace, new.name)
        if there is None:
            return None
        if not new.overwrite:
            raise AlreadyExists(
                f"There is a web service {new.name!r} in workspace {workspace!r} already.",
                hint="Update or delete it, choose another name, or pass overwrite=True.",
            )
        return self._access.asset(who, Action.CHANGE_DEPLOYMENT, there)

    def _changed(self, who: Principal, seen: Asset, before: Credentials, changes: DeploymentSpec) -> DeploymentDraft:
        if is_endpoint(seen):
            return self._changed_endpoint(seen, changes)
        own = {"ssl_key_pem": before.private_key} if before.private_key else {}
        config = changed_config({**seen.body["config"], **own}, changes.config)
        return self._planner.draft(who, seen.workspace, changes.over(DeploymentSpec.parse(seen.body), config))

    def _changed_endpoint(self, seen: Asset, changes: DeploymentSpec) -> DeploymentDraft:
        if changes.redefines:
            raise InvalidArgument(
                f"{seen.name!r} is an endpoint: its versions have models and scripts.", hint="Use update_version()."
            )
        config = changed_config(seen.body["config"], changes.config)
        return self._planner.endpoint_draft(config, versions_in(seen))

    def _listed(self, workspace: str) -> Sequence[Asset]:
        """Services to list. Versions are left out: their endpoints show them."""
        return [service for service in self._assets.list(workspace, KIND) if not is_version(service)]

    def _models_of(self, service: Asset) -> Sequence[str]:
        return [model for one in (service, *self._versions_of(service)) for model in one.body["models"]]

    def _versions_of(self, service: Asset) -> Sequence[Asset]:
        names = [version_asset_name(service.name, version.name) for version in versions_in(service)]
        found = [self._writer.find(service.workspace, name) for name in names]
        return [version for version in found if version is not None]

    def check_port(self, who: Principal, port: int | None, itself: Asset | None) -> None:
        """Raise Conflict for a port that another web service asks for; it is named if the caller may read it."""
        if port is None:
            return
        for workspace in self._assets.list_workspaces():
            for other in self._assets.list(workspace.name, KIND):
                if other.body["config"].get("port") == port and (itself is None or other.id != itself.id):
                    whose = "a web service in another workspace"
                    if self._access.may_read_workspace(who, workspace.name):
                        whose = f"the web service {other.name!r} in workspace {workspace.name!r}"
                    raise Conflict(f"Port {port} is that of {whose}.", hint="Choose another port, or leave it out.")


def _matches_any(wanted: str | None, ids: Sequence[str]) -> bool:
    if not wanted:
        return True
    return any(one == wanted or one.rpartition(":")[0] == wanted for one in ids)


def _has(there: Mapping[str, str], wanted: Mapping[str, str | None]) -> bool:
    return all(key in there and (value is None or there[key] == value) for key, value in wanted.items())
