"""Environment of a revision: found in the cache, or built in a process of its own.

The process is `python -m runyard.serving.building HOME PARENT_PID`.
It reads JSON with environment, variables, packages and addresses from stdin, writes the build log to stderr and, at its
end, one line of JSON to stdout: {} or the error as on the wire.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from subprocess import PIPE, Popen

from runyard.core.record_json import from_json, to_json
from runyard.environments.uv import UvEnvironments
from runyard.errors import EnvironmentFailed, Json, RunyardError, from_wire, to_wire
from runyard.model.package_settings import PackageSettings
from runyard.model.plan import EnvironmentSpec
from runyard.model.web_services import ServiceSpec
from runyard.node.processes import die_with_parent
from runyard.ports.environments import BuiltEnvironment
from runyard.run_folders import environments_root
from runyard.serving.log_file import ServiceLog
from runyard.umask import users_umask


def find_environment(home: Path, spec: ServiceSpec) -> BuiltEnvironment | None:
    """Look it up on disk; builds nothing."""
    return UvEnvironments(environments_root(home), spec.build_variables).find(spec.environment)


def environments(home: Path) -> UvEnvironments:
    """The cache, for holding environments that are in use."""
    return UvEnvironments(environments_root(home), {})


async def build_environment(home: Path, spec: ServiceSpec, log: ServiceLog) -> BuiltEnvironment:
    """Build it in a process of its own, which writes to the log. Cancelling kills that process.

    Raises EnvironmentFailed with a message for the user.
    """
    request = {
        "environment": to_json(spec.environment),
        "variables": dict(spec.build_variables),
        "packages": to_json(spec.packages),
        "addresses": dict(spec.addresses),
    }
    process = Popen(
        [sys.executable, "-m", "runyard.serving.building", str(home), str(os.getpid())],
        stdin=PIPE,
        stdout=PIPE,
        stderr=log.fileno(),
        cwd="/",
        start_new_session=True,
        umask=users_umask(),
    )
    try:
        output, _ = await asyncio.to_thread(process.communicate, json.dumps(request).encode())
    except asyncio.CancelledError:
        _kill_group(process.pid)
        raise
    error = _error_in(output, process.returncode)
    if error is not None:
        raise error
    found = await asyncio.to_thread(find_environment, home, spec)
    if found is None:
        raise EnvironmentFailed("The environment was built and is not there any more.", hint="Deploy again.")
    return found


def main(home: Path, parent: int) -> int:
    die_with_parent(parent)
    # Imported here: the gateway imports this module, must stay small and builds nothing itself.
    from runyard.environments.making import Environments
    from runyard.environments.provisions import Provisions

    request = json.loads(sys.stdin.buffer.read())
    spec = from_json(EnvironmentSpec, request["environment"], "environment")
    answer: Json = {}
    try:
        settings = from_json(PackageSettings, request["packages"], "packages")
        provisions = Provisions(settings, addresses=request["addresses"])
        Environments(environments_root(home), request["variables"], lambda: provisions).ensure(spec, _print_line)
    except RunyardError as error:
        answer = {"error": to_wire(error)}
    print(json.dumps(answer), flush=True)
    return 0


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _error_in(output: bytes, code: int | None) -> RunyardError | None:
    try:
        answer = json.loads(output)
        return from_wire(answer["error"]) if "error" in answer else None
    except (ValueError, TypeError):
        return EnvironmentFailed(
            f"Building the environment ended with {code} before it was done.", hint="Deploy again; the log says more."
        )


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
