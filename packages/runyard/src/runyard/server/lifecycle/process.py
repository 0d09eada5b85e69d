"""The service process: one per home, from taking its lock to its last response.

`runyard serve` and `python -m runyard.server.lifecycle.process` start it. Heavy imports come after the lock is taken.
"""

import argparse
import fcntl
import gc
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from runyard.core.errors import Conflict, RunyardError
from runyard.core.listen_settings import LISTEN, NO_TLS, TLS_CERT, TLS_KEY
from runyard.core.settings import Settings, home_folder, read_settings
from runyard.core.umask import keep_files_private
from runyard.process_logs import configure_logging
from runyard.server.lifecycle.control import POLL_SECONDS, START_SECONDS, service_status
from runyard.server.lifecycle.discovery import (
    write_start_error,
)
from runyard.server.lifecycle.home_copy import detach_from_original, find_original
from runyard.storage.home import (
    RESTORING,
    link_run_folders,
    make_private,
    prepare_home,
    require_linux,
    require_restored,
    require_space,
)
from runyard_sdk.home import why_not_ours

log = logging.getLogger("runyard.server.lifecycle.process")


def serve(settings: Settings, *, keep: bool) -> int:
    """Run the service until it is asked to stop or is idle; return the exit code.

    Where another service of this home answers, the code is 1, or 0 without `keep`. A failed start is written to
    start-error.json.
    """
    try:
        require_linux()
        prepare_home(settings.home)
        keep_files_private()
        with _service_lock(settings.home) as is_ours:
            if is_ours:
                require_space(settings.home)
                require_restored(settings.home)
                _prepare_for_service(settings)
                gc.disable()  # imports leave no garbage, and looking for some takes a tenth of them
                # FastAPI, SQLAlchemy and all parts: most of a cold start. Who finds the lock taken needs none of them.
                from runyard.server.lifecycle.running_service import run_service

                gc.enable()
                run_service(settings, keep=keep)
                return 0
        return _report_other_service(settings.home, keep)
    except RunyardError as problem:
        return _report_failure(settings.home, problem)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="runyard serve")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--keep", dest="keep", action="store_true", default=True)
    kept.add_argument("--on-demand", dest="keep", action="store_false")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--listen", metavar="HOST:PORT", default="")
    parser.add_argument("--tls-cert", metavar="FILE", default="")
    parser.add_argument("--tls-key", metavar="FILE", default="")
    parser.add_argument("--no-tls", action="store_true")
    given = parser.parse_args(arguments)
    if why_not_ours(str(home_folder())) is None:  # write nothing, not even a log, to another user's home
        configure_logging("service", home_folder())
    try:
        settings = read_settings({**os.environ, **_as_variables(given)})
    except RunyardError as problem:
        return _report_failure(home_folder(), problem)
    return serve(replace(settings, port=given.port) if given.port else settings, keep=given.keep)


def _as_variables(given: argparse.Namespace) -> dict[str, str]:
    """Given options as variables, which override the environment."""
    chosen = {LISTEN: given.listen, TLS_CERT: given.tls_cert, TLS_KEY: given.tls_key, NO_TLS: "1" * given.no_tls}
    return {name: value for name, value in chosen.items() if value}


def _report_failure(home: Path, problem: RunyardError) -> int:
    """Log the error, and write it for the process that started this one. Returns the exit code."""
    log.error("%s", f"{problem.problem} {problem.hint}".strip())
    if home.is_dir() and os.access(home, os.W_OK) and why_not_ours(str(home)) is None:
        write_start_error(home, problem.problem, problem.hint)
    return 1


def _report_other_service(home: Path, keep: bool) -> int:
    found = service_status(home) or {}
    log.log(
        logging.ERROR if keep else logging.INFO,
        "%s is served already: process %s, at %s. `runyard down` stops that service.",
        home,
        found.get("pid", "of another service"),
        found.get("url", "an unknown address"),
    )
    return 1 if keep else 0


@contextmanager
def _service_lock(home: Path) -> Iterator[bool]:
    """True once the lock is ours; False once the service that holds it answers. Raises RunyardError if none does."""
    ends_at = time.monotonic() + START_SECONDS
    with (home / "service.lock").open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if service_status(home) is not None:
                    yield False
                    return
                if (home / RESTORING).exists():
                    raise Conflict(
                        f"The home {home} is being restored.",
                        hint="Start the service once `runyard restore` has ended.",
                    ) from None
                if time.monotonic() > ends_at:
                    raise RunyardError(
                        f"Another process holds {home / 'service.lock'} and does not answer as the service of {home}.",
                        hint="Is it stopped, or the home a copy made of hard links? End it, or copy the files.",
                    ) from None
                time.sleep(POLL_SECONDS)
                continue
            yield True
            return


@contextmanager
def without_service(home: Path) -> Iterator[None]:
    """Keep services of this home from starting inside the block. Raises Conflict while one runs."""
    with (home / "service.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if service_status(home) is None:
                raise Conflict(
                    f"Another process works on the home {home}: a restore, a repair, a service that does not answer.",
                    hint="Wait until it has ended, then try again.",
                ) from None
            raise Conflict(f"The service of {home} is running.", hint="Stop it first: runyard down") from None
        yield


def _prepare_for_service(settings: Settings) -> None:
    if make_private(settings.home):
        log.warning(
            "Other users could look into %s until now. It is readable by its owner only from now on; if others use "
            "this machine, replace its tokens: stop the service, remove the file 'token', start it again.",
            settings.home,
        )
    # We hold the lock: the service in that file is gone, or belongs to the home that this one was copied from.
    (settings.home / "service.json").unlink(missing_ok=True)
    if find_original(settings.home) is not None:
        detach_from_original(settings.home)
    link_run_folders(settings.home, settings.run_root)


if __name__ == "__main__":
    sys.exit(main())
