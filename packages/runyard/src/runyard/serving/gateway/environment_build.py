"""Environment of a revision: found in the cache, or built in a process of its own.

The process is `python -m runyard.serving.gateway.environment_build HOME PARENT_PID`.
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

from runyard.core.errors import EnvironmentFailed, Json, RunyardError, from_wire, to_wire
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.record_json import from_json, to_json
from runyard.core.records.environments import PackageSettings
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.web_services import ServiceSpec
from runyard.core.run_folders import environments_root
from runyard.core.umask import users_umask
from runyard.environments.uv_environments import UvEnvironments
from runyard.node.processes.procfs import die_with_parent
from runyard.serving.service_log import ServiceLog


def find_environment(home: Path, spec: ServiceSpec) -> BuiltEnvironment | None:
    """Look it up on disk; builds nothing."""
    return UvEnvironments(environments_root(home), spec.build_variables).find(spec.environment)


def environment_cache(home: Path) -> UvEnvironments:
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
        [sys.executable, "-m", "runyard.serving.gateway.environment_build", str(home), str(os.getpid())],
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
    from runyard.environments.builder import LocalEnvironments
    from runyard.environments.package_sources import BuildSettings

    request = json.loads(sys.stdin.buffer.read())
    spec = from_json(EnvironmentSpec, request["environment"], "environment")
    answer: Json = {}
    try:
        settings = from_json(PackageSettings, request["packages"], "packages")
        provisions = BuildSettings(settings, addresses=request["addresses"])
        LocalEnvironments(environments_root(home), request["variables"], lambda: provisions).ensure(spec, _print_line)
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
