from dataclasses import dataclass

from pydantic import Field
from starlette.responses import Response

from runyard.core.policy import Action
from runyard.server.http.models import Body
from runyard.server.http.responses import Json, NoContent, not_cached
from runyard.server.http.routes import Routes
from runyard.server.services import CallerDep, ServicesDep

routes = Routes("/workspaces/{workspace}/secrets", tag="secrets")


@dataclass(frozen=True)
class SecretName:
    name: str


@dataclass(frozen=True)
class SecretNames:
    secrets: list[SecretName]


@dataclass(frozen=True)
class SecretValue:
    value: str


class NewSecret(Body):
    value: str = Field(examples=["s3cret"])


@routes.get("", Action.READ_SECRET, SecretNames)
def list_secrets(services: ServicesDep, who: CallerDep, workspace: str) -> Response:
    """The names of the secrets in a workspace."""
    return Json(SecretNames([SecretName(name) for name in services.secrets.names(who, workspace)]))


@routes.get("/{name}", Action.READ_SECRET, SecretValue)
def get_secret(services: ServicesDep, who: CallerDep, workspace: str, name: str) -> Response:
    """The value of a secret."""
    return not_cached(Json(SecretValue(services.secrets.get(who, workspace, name))))


@routes.put("/{name}", Action.WRITE_SECRET, None)
def put_secret(services: ServicesDep, who: CallerDep, workspace: str, name: str, body: NewSecret) -> Response:
    """Create or replace a secret."""
    services.secrets.put(who, workspace, name, body.value)
    return NoContent()


@routes.delete("/{name}", Action.WRITE_SECRET)
def delete_secret(services: ServicesDep, who: CallerDep, workspace: str, name: str) -> Response:
    """Delete a secret; quiet where there is none."""
    services.secrets.delete(who, workspace, name)
    return NoContent()
