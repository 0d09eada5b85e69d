from typing import Literal

from pydantic import ConfigDict, Field
from starlette.responses import Response

from runyard.core.definitions.package_changes import PackageSettingsChange
from runyard.core.policy import Action
from runyard.errors import InvalidArgument
from runyard.http.answers import Json
from runyard.http.context import Use, Who
from runyard.http.models import Body
from runyard.http.routing import Routes
from runyard.model.package_settings import PackageSettings
from runyard.planning.package_settings import settings_to_json, shown_settings

routes = Routes("/workspaces/{workspace}", tag="package_settings")


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


@routes.get("/packages", Action.READ_WORKSPACE, PackageSettings)
def get_settings(services: Use, who: Who, workspace: str) -> Response:
    """Package sources of a workspace, without passwords."""
    return Json(settings_to_json(shown_settings(services.package_settings.get(who, workspace))))


@routes.put("/packages", Action.CHOOSE_PACKAGES, PackageSettings)
def put_settings(services: Use, who: Who, workspace: str, body: PackageChanges) -> Response:
    """Change package sources. Not for scripts: they would decide what other runs install."""
    changed = services.package_settings.change(who, workspace, body.changes())
    return Json(settings_to_json(shown_settings(changed)))


def _tuple(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)
