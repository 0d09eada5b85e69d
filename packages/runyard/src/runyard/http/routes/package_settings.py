from typing import Literal

from pydantic import ConfigDict, Field
from starlette.responses import Response

from runyard.http.answers import Json
from runyard.http.context import Use, Who
from runyard.http.models import Body
from runyard.http.routing import Routes
from runyard.model.package_settings import PackageSettings
from runyard.planning.package_settings import settings_to_json, shown_settings

routes = Routes("/workspaces/{workspace}")


class PackageChanges(Body):
    """What is left out stays; a null puts a setting back. Others than these are refused."""

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


@routes.get("/packages", PackageSettings)
def get_settings(services: Use, who: Who, workspace: str) -> Response:
    """Where the packages of a workspace come from, without passwords."""
    return Json(settings_to_json(shown_settings(services.package_settings.get(who, workspace))))


@routes.put("/packages", PackageSettings)
def put_settings(services: Use, who: Who, workspace: str, body: PackageChanges) -> Response:
    """Not for scripts: whoever chooses where packages come from chooses what runs of others are made of."""
    changed = services.package_settings.change(who, workspace, body.model_dump(exclude_unset=True))
    return Json(settings_to_json(shown_settings(changed)))
