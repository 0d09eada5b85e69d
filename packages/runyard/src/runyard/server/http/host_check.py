"""Check of the Host header, against DNS rebinding: a page of another site must not reach this service by its name."""

import re

from starlette.types import Scope

from runyard.core.errors import InvalidArgument, RunyardError, Unauthorized
from runyard.core.listen_settings import matches_name

_HOST_HEADER = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]{1,255})|\[(?P<address>[0-9A-Fa-f:.]{2,64})\])(?::[0-9]{1,5})?")


class HostCheck:
    def __init__(self, allowed_hosts: frozenset[str]) -> None:
        self._allowed = allowed_hosts
        self._wildcards = [name for name in allowed_hosts if name.startswith("*.")]

    def refusal(self, scope: Scope) -> RunyardError | None:
        """Why the request is refused; None where its Host header is a name of this service."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) > 1:
            return InvalidArgument(f"The request has {len(hosts)} Host headers.", hint="Send one.")
        host = _HOST_HEADER.fullmatch(hosts[0].decode("latin-1") if hosts else "")
        if host is None or not self._knows((host["name"] or host["address"]).lower(), scope.get("server")):
            return Unauthorized("The Host header is not a name of this service.", hint="Set RUNYARD_ALLOWED_HOSTS.")
        return None

    def _knows(self, name: str, server: tuple[str, int | None] | None) -> bool:
        """Whether the name is allowed. The address that the client connected to always is: no DNS name can claim it."""
        if name in self._allowed or (server and name == server[0].removeprefix("::ffff:")):
            return True
        return any(matches_name(name, allowed) for allowed in self._wildcards)
