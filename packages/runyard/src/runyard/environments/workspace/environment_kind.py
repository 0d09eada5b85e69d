from runyard.assets.kinds import PlainKind
from runyard.core.definitions.environment import EnvironmentDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset
from runyard.environments.workspace.intake import EnvironmentIntake
from runyard.environments.workspace.names import CURATED_PREFIX


class EnvironmentKind(PlainKind[EnvironmentDefinition]):
    """Registering the same definition again makes no new version. Names of curated environments are reserved."""

    def __init__(self, incoming: EnvironmentIntake) -> None:
        self._incoming = incoming

    def checked(self, who: Principal, workspace: str, name: str, new: EnvironmentDefinition) -> EnvironmentDefinition:
        if name.startswith(CURATED_PREFIX):
            raise InvalidArgument(
                f"The environment's name {name!r} begins with {CURATED_PREFIX!r}, which curated environments alone do.",
                hint="Give it another name, for example with environment.clone('my-environment').",
            )
        return self._incoming.accept(who, workspace, new)

    def needs_version(self, latest: Asset, new: EnvironmentDefinition) -> bool:
        return dict(latest.body) != dict(new.raw)
