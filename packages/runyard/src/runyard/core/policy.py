"""What each kind of caller may do, as one table.

The owner and the service's own loops may do everything. For other callers, TABLE gives the reach of each action; an
action without a row for their role is forbidden. A caller with scopes may do only those actions of its role. Every
route names its action: a caller who may do it to nothing at all is refused before the request body is read
(`require_right`). The use case then checks the resource itself (`require`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from runyard.core.errors import Forbidden
from runyard.core.principal import Principal, Role


class Reach(StrEnum):
    """The resources that a caller may apply an action to. The text is used in refusals."""

    ANYTHING = "anything"
    WORKSPACE = "what is in its own workspace"
    TREE = "its own run and the runs below it"
    ATTEMPT = "its own attempt"
    CREATED = "what its own run, or one below it, has made"
    DECLARED = "the data that its run has declared"
    SHOWN = "what runs of its workspace have sent, and what its own run is made of"


class Action(StrEnum):
    """A verb and a kind of resource. The text is used in refusals."""

    SEE_SERVICE = "see the service's version"
    READ_API = "read the description of the API"
    READ_FIGURES = "read the service's figures"
    OPERATE_SERVICE = "operate the service"
    LIST_WORKSPACES = "list workspaces"
    READ_WORKSPACE = "read a workspace"
    CHANGE_WORKSPACE = "make, change or delete a workspace"
    CREATE_EXPERIMENT = "make or describe an experiment"
    DELETE_EXPERIMENT = "delete an experiment"

    SUBMIT_RUN = "submit a run"
    READ_RUN = "read a run"
    WRITE_RUN = "change, end or add to a run"
    CANCEL_RUN = "cancel a run"
    DELETE_RUN = "delete a run"
    DELIVER_RUN = "deliver logs, metrics and files of a run"
    SEE_DELIVERED = "read logs, journals and files of a run"
    MOVE_RUNS = "export and import runs"

    REPORT_ATTEMPT = "report on an attempt"
    SERVE_ATTEMPT = "fetch what an attempt needs"

    READ_SNAPSHOT = "read a snapshot"
    READ_BLOB = "read a stored file"
    WRITE_BLOB = "store a file"
    ADOPT_BLOB = "store a file of the service's machine by its path"

    READ_ASSET = "read an asset"
    CREATE_ASSET = "register an asset"
    CHANGE_ASSET = "change, replace or delete an asset"
    PLACE_COMPUTE = "choose the machines of a compute target"
    READ_SECRET = "read a secret"
    WRITE_SECRET = "write or delete a secret"

    OPEN_FOLDERS = "make any folder of the service's machine a datastore"
    READ_CREDENTIALS = "read the credentials of a datastore"
    READ_FILES = "read files of a datastore"
    WRITE_FILES = "write files of a datastore"
    DELETE_FILES = "delete files of a datastore"
    ADOPT_FILES = "copy files of the service's machine to a datastore"
    READ_DATASET = "read the files of a dataset"
    OPEN_DATASET = "get direct access to the files of a dataset"

    BUILD_ENVIRONMENT = "build an environment"
    CHOOSE_PACKAGES = "choose where packages come from"

    DEPLOY = "deploy, profile or package a model"
    CHANGE_DEPLOYMENT = "change or delete a web service"
    READ_KEYS = "read the keys of a web service"
    RENEW_KEYS = "renew the keys of a web service"


_A, _R = Action, Reach
TABLE: Mapping[Action, Mapping[Role, Reach]] = {
    _A.SEE_SERVICE: {Role.RUN: _R.ANYTHING, Role.NODE: _R.ANYTHING},
    _A.READ_API: {Role.RUN: _R.ANYTHING},
    _A.READ_FIGURES: {},
    _A.OPERATE_SERVICE: {},
    _A.LIST_WORKSPACES: {Role.RUN: _R.ANYTHING},
    _A.READ_WORKSPACE: {Role.RUN: _R.WORKSPACE},
    _A.CHANGE_WORKSPACE: {},
    _A.CREATE_EXPERIMENT: {Role.RUN: _R.WORKSPACE},
    _A.DELETE_EXPERIMENT: {},
    _A.SUBMIT_RUN: {Role.RUN: _R.WORKSPACE},
    _A.READ_RUN: {Role.RUN: _R.WORKSPACE},
    _A.WRITE_RUN: {Role.RUN: _R.TREE},
    _A.CANCEL_RUN: {Role.RUN: _R.TREE},
    _A.DELETE_RUN: {},
    _A.DELIVER_RUN: {Role.RUN: _R.TREE, Role.NODE: _R.TREE},
    _A.SEE_DELIVERED: {Role.RUN: _R.WORKSPACE, Role.NODE: _R.TREE},
    _A.MOVE_RUNS: {},
    _A.REPORT_ATTEMPT: {Role.NODE: _R.ATTEMPT},
    _A.SERVE_ATTEMPT: {Role.NODE: _R.ATTEMPT},
    _A.READ_SNAPSHOT: {Role.RUN: _R.SHOWN},
    _A.READ_BLOB: {Role.RUN: _R.SHOWN, Role.NODE: _R.SHOWN},
    _A.WRITE_BLOB: {Role.RUN: _R.ANYTHING, Role.NODE: _R.ANYTHING},
    _A.ADOPT_BLOB: {Role.RUN: _R.ANYTHING},
    _A.READ_ASSET: {Role.RUN: _R.WORKSPACE},
    _A.CREATE_ASSET: {Role.RUN: _R.WORKSPACE},
    _A.CHANGE_ASSET: {Role.RUN: _R.CREATED},
    _A.PLACE_COMPUTE: {},
    _A.READ_SECRET: {Role.RUN: _R.WORKSPACE},
    _A.WRITE_SECRET: {},
    _A.OPEN_FOLDERS: {},
    _A.READ_CREDENTIALS: {},
    _A.READ_FILES: {Role.RUN: _R.WORKSPACE, Role.NODE: _R.DECLARED},
    _A.WRITE_FILES: {Role.RUN: _R.WORKSPACE, Role.NODE: _R.DECLARED},
    _A.DELETE_FILES: {Role.NODE: _R.DECLARED},
    _A.ADOPT_FILES: {Role.RUN: _R.WORKSPACE},
    _A.READ_DATASET: {Role.RUN: _R.WORKSPACE},
    # Gives the caller the credentials of the datastores of the dataset's files: those of its own workspace, never the
    # operator's, which open all workspaces.
    _A.OPEN_DATASET: {Role.RUN: _R.WORKSPACE},
    _A.BUILD_ENVIRONMENT: {Role.RUN: _R.WORKSPACE},
    _A.CHOOSE_PACKAGES: {},
    _A.DEPLOY: {Role.RUN: _R.WORKSPACE},
    _A.CHANGE_DEPLOYMENT: {Role.RUN: _R.CREATED},
    _A.READ_KEYS: {Role.RUN: _R.WORKSPACE},
    _A.RENEW_KEYS: {Role.RUN: _R.CREATED},
}
MOST_LISTED = 8
"""Number of scopes that a refusal lists."""
_UNBOUNDED = frozenset({Role.OWNER, Role.SERVICE})


@dataclass(frozen=True)
class Resource:
    """The target of an action. The callables read a store, so they are only called if the answer matters."""

    name: str
    """Name for refusals: "run r_1", "workspace 'lab'"."""
    workspace: str | None = None
    run_id: str | None = None
    attempt_id: str | None = None
    created_by: str = ""
    is_below: Callable[[str], bool] = lambda run_id: False
    """True if the resource is, or was created by, the run of that id or a descendant of it."""
    is_its_data: Callable[[], bool] = lambda: False
    """True if it is data that the caller's run declared, or a file of its workspace."""


SERVICE_ITSELF = Resource("the service")


def may(who: Principal, action: Action, on: Resource) -> bool:
    if not _is_in_scope(who, action):
        return False
    if who.role in _UNBOUNDED:
        return True
    reach = TABLE[action].get(who.role)
    return reach is not None and _REACHES[reach](who, on)


def require(who: Principal, action: Action, on: Resource) -> None:
    """Raises Forbidden, which says what is needed."""
    if not may(who, action, on):
        raise _refusal(who, action, on)


def require_right(who: Principal, action: Action) -> None:
    """Raises Forbidden for a caller who may apply the action to no resource at all; see `require` for one resource."""
    if not _is_in_scope(who, action) or (who.role not in _UNBOUNDED and who.role not in TABLE[action]):
        raise _refusal(who, action, SERVICE_ITSELF)


def _refusal(who: Principal, action: Action, on: Resource) -> Forbidden:
    whose, name = _shown(who), action.name.lower()
    if not _is_in_scope(who, action):
        problem = f"{whose} may not {action}: its scopes are {_listed(who.scopes or frozenset())}."
        hint = f"Use a token with the scope {name!r}, or the owner's."
        return Forbidden(problem, hint=hint, action=name, needs=f"scope {name}")
    reach = TABLE[action].get(who.role)
    if reach is None:
        problem = f"{whose} may not {action}."
    else:
        problem = f"{whose} does not reach {on.name}: to {action} it reaches {reach} and no more."
    return Forbidden(problem, hint="Use the owner's token.", action=name, needs="owner")


def _is_in_scope(who: Principal, action: Action) -> bool:
    return who.scopes is None or action in who.scopes


def _listed(scopes: frozenset[Action]) -> str:
    names = sorted(repr(scope.name.lower()) for scope in scopes)
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return (", ".join(names[:MOST_LISTED]) or "none") + more


def _shown(who: Principal) -> str:
    match who.role:
        case Role.RUN:
            return f"The token of run {who.run_id}"
        case Role.NODE:
            return f"The node's token of run {who.run_id}"
    return "This token"


def _is_in_tree(who: Principal, on: Resource) -> bool:
    return who.run_id is not None and (on.run_id == who.run_id or on.is_below(who.run_id))


_REACHES: Mapping[Reach, Callable[[Principal, Resource], bool]] = {
    Reach.ANYTHING: lambda who, on: True,
    Reach.WORKSPACE: lambda who, on: who.workspace is not None and on.workspace == who.workspace,
    Reach.TREE: _is_in_tree,
    Reach.ATTEMPT: lambda who, on: on.attempt_id is not None and on.attempt_id == who.attempt_id,
    Reach.CREATED: lambda who, on: on.created_by == who.name or _is_in_tree(who, on),
    Reach.DECLARED: lambda who, on: on.is_its_data(),
    Reach.SHOWN: lambda who, on: on.is_its_data(),
}
