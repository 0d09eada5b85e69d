"""Who is let in, and to what. The owner may do all; a script's and a node's token reach what their run needs."""

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from runyard.errors import AttemptOver, Forbidden, InvalidArgument, NotFound, Unauthorized
from runyard.http.context import Services
from runyard.http.open_listener import FROM_OUTSIDE
from runyard.listen_settings import is_loopback
from runyard.model.runs import RunId, RunRecord
from runyard.services.callers_blobs import ask_for_run
from runyard.services.children import is_descendant
from runyard.services.tokens import Caller, Role
from runyard.settings import Settings
from runyard.version import WIRE

_OF_PROXIES = frozenset({"x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via"})
"""Headers that a proxy adds."""
READS = frozenset({"GET", "HEAD"})
_ONE_WORKSPACE = f"/api/v{WIRE}/workspaces/{{workspace}}"
_ONE_DATASTORE = "/workspaces/{workspace}/datastores/{name}"
FOR_NODES = tuple(
    f"/api/v{WIRE}{route}"
    for route in (
        "/health",
        "/attempts/{attempt_id}/",
        *(f"/runs/{{run_id}}/{kind}" for kind in ("logs", "journals", "files")),
        "/blobs/",
        *(f"{_ONE_DATASTORE}/{verb}" for verb in ("files", "stat", "read-many", "write-many")),
    )
)
"""How the routes begin that a node's token opens; what each of them lets it do is checked there."""


async def identify(request: Request) -> None:
    """Sets `request.state.caller`. A run's token is good until that run, or the attempt it was for, has ended."""
    services: Services = request.app.state.services
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    caller = services.tokens.identify(token.strip()) if scheme.lower() == "bearer" else None
    if caller is None:
        raise Unauthorized(
            "The token is missing or is not one of this service.",
            hint="Set RUNYARD_TOKEN to the owner's token: the file `token` in the home of the service.",
        )
    if caller.role is Role.NODE and not request.scope["route"].path.startswith(FOR_NODES):
        raise Unauthorized("A node's token does what its attempt needs, and nothing else.")
    if caller.role is Role.RUN:
        await run_in_threadpool(_refuse_after_the_end, services, caller)
    request.state.caller = caller
    ask_for_run(caller.run_id)


async def owner_only(request: Request) -> None:
    if request.state.caller.role is not Role.OWNER:
        raise Unauthorized("Only the owner's token may do this.")


async def living(request: Request) -> None:
    """AttemptOver for whoever speaks for an attempt that is over: it has nothing to read or to write any more."""
    attempt_id = request.state.caller.attempt_id
    if attempt_id is None:
        return
    if request.app.state.services.fence.knows(attempt_id):
        require_living(request)
    else:
        await run_in_threadpool(require_living, request)


def require_living(request: Request) -> None:
    """The same, for who has waited meanwhile. It may read the database."""
    caller: Caller = request.state.caller
    if caller.attempt_id is not None:
        services: Services = request.app.state.services
        services.fence.check(caller.attempt_id)


def is_from_outside(request: Request) -> bool:
    """Whether the client may be on another machine, so that no path means the same to it and to the service."""
    if FROM_OUTSIDE in request.scope or not is_loopback(request.client.host if request.client else ""):
        return True
    if not _OF_PROXIES.isdisjoint(request.headers.keys()):
        return True
    # A proxy may ask just as a client of this machine does. The supervisors of this machine do not come through it, and
    # take files from their own attempt's folders alone.
    settings: Settings = request.app.state.settings
    is_shared = settings.is_behind_proxy and settings.listen is None
    return is_shared and request.state.caller.role is not Role.NODE


async def same_machine(request: Request) -> None:
    """For routes that take files by their paths."""
    if is_from_outside(request):
        raise InvalidArgument("The service does not see this machine's files.", hint="Send the files themselves.")


async def run_access(request: Request) -> None:
    """For routes below /runs/{run_id}."""
    await living(request)
    caller: Caller = request.state.caller
    run_id = RunId(request.path_params["run_id"])
    is_own = run_id == caller.run_id and request.method != "DELETE"
    if caller.role is not Role.OWNER and not is_own:
        await run_in_threadpool(_check_run, request.app.state.services, caller, run_id, request.method)


async def workspace_access(request: Request) -> None:
    """For routes below /workspaces/{workspace}. What a node reaches of a datastore is `datastore_access`."""
    caller: Caller = request.state.caller
    if caller.role is not Role.OWNER:
        await run_in_threadpool(
            _check_workspace, request.app.state.services, caller, request.path_params.get("workspace"), request
        )


async def datastore_access(request: Request) -> None:
    """For routes below /workspaces/{workspace}/datastores/{name} that read or write files."""
    caller: Caller = request.state.caller
    if caller.role is not Role.NODE:
        await workspace_access(request)
        return
    await living(request)
    given = request.path_params
    path = given.get("path") or request.query_params.get("prefix") or ""
    assert caller.run_id is not None
    await run_in_threadpool(
        request.app.state.services.node_reach.require,
        caller.run_id,
        given["workspace"],
        given["name"],
        path,
        writes=request.method not in READS,
    )


async def many_files_access(request: Request) -> None:
    """For routes that name the files in their body: the route asks of each whether a node reaches it."""
    await (living(request) if request.state.caller.role is Role.NODE else workspace_access(request))


async def attempt_access(request: Request) -> None:
    """For routes below /attempts/{attempt_id} of an attempt that goes on."""
    await own_attempt(request)
    await living(request)


async def own_attempt(request: Request) -> None:
    """The same whether it goes on or not."""
    caller: Caller = request.state.caller
    is_its_node = caller.role is Role.NODE and caller.attempt_id == request.path_params["attempt_id"]
    if caller.role is not Role.OWNER and not is_its_node:
        raise Unauthorized("This token is not that attempt's.")


def _refuse_after_the_end(services: Services, caller: Caller) -> None:
    run = _run_of(services, caller)
    if run.status.is_terminal:
        raise Unauthorized(f"Run {caller.run_id} has ended, and its token with it.")
    if caller.attempt_id != run.ticket:
        raise AttemptOver(f"Attempt {caller.attempt_id} was given up: run {run.id} goes on elsewhere.")


def _check_run(services: Services, caller: Caller, run_id: RunId, method: str) -> None:
    own = _run_of(services, caller)
    run = services.runs.get(run_id)
    if method in READS and caller.role is Role.RUN and run.workspace == own.workspace:
        return
    if method != "DELETE" and is_descendant(services.run_store, run, own.id):
        return
    raise Forbidden(f"The token of run {own.id} does not reach run {run_id}.")


def _check_workspace(services: Services, caller: Caller, workspace: str | None, request: Request) -> None:
    own = _run_of(services, caller)
    is_itself = request.scope["route"].path == _ONE_WORKSPACE
    if workspace != own.workspace or (is_itself and request.method not in READS):
        raise Unauthorized(
            f"The token of run {own.id} reaches what is in workspace {own.workspace!r} and nothing else."
        )


def _run_of(services: Services, caller: Caller) -> RunRecord:
    assert caller.run_id is not None
    try:
        return services.runs.get(caller.run_id)
    except NotFound:
        raise Unauthorized(f"Run {caller.run_id} is gone, and its token with it.") from None
