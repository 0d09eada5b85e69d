from typing import Any, Literal

from pydantic import ConfigDict, Field
from starlette.responses import Response

from runyard.core.definitions.environment import EnvironmentDefinition
from runyard.core.definitions.fields import Fields
from runyard.core.definitions.run import submitter_of
from runyard.core.errors import InvalidArgument
from runyard.core.policy import Action
from runyard.core.records.environments import PackageSettings, PackageSettingsChange
from runyard.core.records.runs import RunId
from runyard.environments.planning.package_settings import settings_to_json, shown_settings
from runyard.runs.kinds.build import BuildRecord, NewBuild, build_record
from runyard.server.http.models import Body, Entry
from runyard.server.http.parameters import QueryInt
from runyard.server.http.responses import Bytes, Json
from runyard.server.http.routes import Media, Routes
from runyard.server.http.streams import wait_for_change
from runyard.server.http.worker_threads import run_in_thread
from runyard.server.services import CallerDep, ServicesDep

LONGEST_WAIT_SECONDS = 60.0
ANSWER_WITHIN_SECONDS = 1.0
"""How long to wait for a build that may be cached, so that its first answer is the end."""

routes = Routes("/workspaces/{workspace}", tag="builds")
LOG = Media("application/octet-stream", "The log from `offset` on; empty before there is one.")


class BuildBody(Body):
    environment: dict[str, Any] | None = Field(None, examples=[{"name": "train", "python": {}}])
    files: list[Entry] | None = None
    """Files of its build context; upload their blobs first."""
    submitter: dict[str, Any] | None = None
    force: bool = False


@routes.post("/builds", Action.BUILD_ENVIRONMENT, BuildRecord)
async def create_build(services: ServicesDep, who: CallerDep, workspace: str, body: BuildBody) -> Response:
    """Build an environment without a run."""
    new = NewBuild(
        environment=EnvironmentDefinition.parse(body.environment or {}),
        files=body.files or (),
        submitter=submitter_of(Fields(body.submitter or {}, "submitter")),
        force=body.force,
    )
    begun = await run_in_thread(services.builds.create, who, workspace, new)
    return await wait_for_change(
        services, who, begun.id, begun.version, ANSWER_WITHIN_SECONDS, lambda run: Json(build_record(run))
    )


@routes.get("/builds/{build_id}", Action.READ_RUN, BuildRecord)
def get_build(services: ServicesDep, who: CallerDep, workspace: str, build_id: str) -> Response:
    """One build."""
    return Json(build_record(services.builds.get(who, workspace, build_id)))


@routes.get("/builds/{build_id}/wait", Action.READ_RUN, BuildRecord)
async def wait_for_build(
    services: ServicesDep, who: CallerDep, workspace: str, build_id: str, version: QueryInt = 0, timeout: float = 30.0
) -> Response:
    """Long poll: the build, once its version is above the given one or the time is over."""
    await run_in_thread(services.builds.get, who, workspace, build_id)
    seconds = min(max(0.0, timeout), LONGEST_WAIT_SECONDS)
    return await wait_for_change(services, who, RunId(build_id), version, seconds, lambda run: Json(build_record(run)))


@routes.get("/builds/{build_id}/log", Action.READ_RUN, LOG)
def get_build_log(
    services: ServicesDep, who: CallerDep, workspace: str, build_id: str, offset: QueryInt = 0
) -> Response:
    """The log of a build."""
    return Bytes(services.builds.log(who, workspace, build_id, offset))


@routes.get("/environments/{name}/image", Action.READ_ASSET, dict[str, Any])
def get_image(
    services: ServicesDep, who: CallerDep, workspace: str, name: str, version: QueryInt | None = None
) -> Response:
    """Facts of the image or folder that an environment was built into."""
    services.assets.get(who, workspace, "environments", name, version)
    return Json(services.built_environments.image(who, workspace, name, version))


package_routes = Routes("/workspaces/{workspace}", tag="package_settings")


class PackageChanges(Body):
    """A setting that is left out stays, a null resets it; unknown settings are refused."""

    model_config = ConfigDict(extra="allow")

    index_url: str | None = Field(None, examples=["https://packages.example/simple"])
    extra_index_urls: list[str] | None = None
    find_links: list[str] | None = None
    trusted_hosts: list[str] | None = None
    ca_bundle: str | None = None
    offline: bool | None = None
    conda: Literal["auto", "never"] | None = None
    conda_channels: dict[str, str] | None = None
    python_downloads: Literal["auto", "never"] | None = None
    without_engine: Literal["refuse", "virtual-environment"] | None = None

    def changes(self) -> PackageSettingsChange:
        """Raise InvalidArgument for an unknown setting."""
        if self.model_extra:
            name, known = next(iter(self.model_extra)), ", ".join(sorted(PackageChanges.model_fields))
            raise InvalidArgument(f"There is no package setting {ascii(name)[:80]}.", hint=f"Known: {known}.")
        return PackageSettingsChange(
            index_url=self.index_url,
            extra_index_urls=_tuple(self.extra_index_urls),
            find_links=_tuple(self.find_links),
            trusted_hosts=_tuple(self.trusted_hosts),
            ca_bundle=self.ca_bundle,
            offline=self.offline,
            conda=self.conda,
            conda_channels=self.conda_channels,
            python_downloads=self.python_downloads,
            without_engine=self.without_engine,
            reset=frozenset(name for name in self.model_fields_set if getattr(self, name) is None),
        )


@package_routes.get("/packages", Action.READ_WORKSPACE, PackageSettings)
def get_settings(services: ServicesDep, who: CallerDep, workspace: str) -> Response:
    """Package sources of a workspace, without passwords."""
    return Json(settings_to_json(shown_settings(services.package_settings.get(who, workspace))))


@package_routes.put("/packages", Action.CHOOSE_PACKAGES, PackageSettings)
def put_settings(services: ServicesDep, who: CallerDep, workspace: str, body: PackageChanges) -> Response:
    """Change package sources. Not for scripts: they would decide what other runs install."""
    changed = services.package_settings.change(who, workspace, body.changes())
    return Json(settings_to_json(shown_settings(changed)))


def _tuple(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)
