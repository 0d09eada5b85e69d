"""The environment of a revision: found in the cache, or built by a process of its own.

`python -m runyard.serving.building HOME` reads {"environment", "variables", "packages", "addresses"} from its input,
writes the build's lines to its error output and, at its end, one line of JSON: {} or the error in the form of the wire.
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
    """From the disk alone; takes a moment."""
    return UvEnvironments(environments_root(home), spec.build_variables).find(spec.environment)


def environments(home: Path) -> UvEnvironments:
    """For holding what is used."""
    return UvEnvironments(environments_root(home), {})


async def build_environment(home: Path, spec: ServiceSpec, log: ServiceLog) -> BuiltEnvironment:
    """Build it in a process of its own, whose lines go to the log. Cancelling ends that process. Raises
    EnvironmentFailed with words for the user."""
    asked = {
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
        output, _ = await asyncio.to_thread(process.communicate, json.dumps(asked).encode())
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
    # Not above: the gateway, which stays small, finds environments and makes none.
    from runyard.environments.making import Environments
    from runyard.environments.provisions import Provisions

    asked = json.loads(sys.stdin.buffer.read())
    spec = from_json(EnvironmentSpec, asked["environment"], "environment")
    answer: Json = {}
    try:
        settings = from_json(PackageSettings, asked["packages"], "packages")
        provisions = Provisions(settings, addresses=asked["addresses"])
        Environments(environments_root(home), asked["variables"], lambda: provisions).ensure(spec, _say)
    except RunyardError as error:
        answer = {"error": to_wire(error)}
    print(json.dumps(answer), flush=True)
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _error_in(output: bytes, code: int | None) -> RunyardError | None:
    try:
        told = json.loads(output)
        return from_wire(told["error"]) if "error" in told else None
    except (ValueError, TypeError):
        return EnvironmentFailed(
            f"Building the environment ended with {code} before it was done.", hint="Deploy again; the log says more."
        )


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
