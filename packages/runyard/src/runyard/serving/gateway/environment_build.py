"""Environment of a revision: found in the cache, or built in a process of its own (`environment_build_process`)."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from subprocess import PIPE, Popen

from runyard.core.errors import EnvironmentFailed, RunyardError, from_wire
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.record_json import to_json
from runyard.core.records.web_services import ServiceSpec
from runyard.core.run_folders import environments_root
from runyard.core.umask import users_umask
from runyard.environments.uv_environments import UvEnvironments
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
        [sys.executable, "-m", "runyard.serving.gateway.environment_build_process", str(home), str(os.getpid())],
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
