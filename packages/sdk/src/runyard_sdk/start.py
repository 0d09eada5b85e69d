"""Start the service: one per home, however many processes ask at once."""

import json
import os
import sys
import time

from runyard_sdk.errors import ServiceUnavailable
from runyard_sdk.home import home_folder, is_of_home, private

START_SECONDS = 60
_ROOM_FOR_ERROR_BYTES = 64 << 10
POLL_SECONDS = 0.01
_NOT_FOR_THE_SERVICE = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONDONTWRITEBYTECODE", "PYTHONINSPECT")
# Processes with these variables end with a web service worker. A service that a scoring script starts must not.
_OF_A_WORKER = ("AML_APP_ROOT", "AZUREML_APP_ROOT", "AZUREML_ENTRY_SCRIPT", "AZUREML_MODEL_DIR", "RUNYARD_MODELS_ROOT",
                "RUNYARD_SERVICE", "RUNYARD_WORKER")
_newer = {}


def ensure(home, usable):
    """Facts of a service that answers; starts one under `start.lock` if `usable()` finds none.

    An older service, which `usable` refuses although it answers, is stopped first. Runs go on meanwhile.
    """
    fcntl = _locking()
    with open(os.path.join(home, "start.lock"), "a", opener=private) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = usable()
        if found:
            return found
        stale = _read(os.path.join(home, "service.json"))
        if stale and not is_of_home(stale, home):
            stale = None  # left by copying another home, whose service is not ours
        if stale and answers(stale):
            _stop(stale)
        process = _launch(home, "--keep" if stale and stale.get("kept") else "--on-demand")
        return _await(home, process, usable)


def executable(home):
    """The `runyard` program to start: next to this interpreter, on PATH, else the one that `runyard up` recorded."""
    import shutil

    beside = [os.path.join(folder, "runyard") for folder in (os.path.dirname(sys.executable), sys.prefix + "/bin")]
    recorded = _read_text(os.path.join(home, "runyard-path"))
    for candidate in beside + [shutil.which("runyard"), recorded]:
        if candidate and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise ServiceUnavailable(
        "No Runyard service is running for {} and the program 'runyard' was not found beside {}, on PATH or at the "
        "path that 'runyard up' records.".format(home, sys.executable),
        hint="Install it with Python 3.11 or newer from the files of a release (see Install in its README), then run:\n"
             "    runyard up\n"
             "or set RUNYARD_URL and RUNYARD_TOKEN to a service elsewhere.")


def can_be_newer(found):
    """Whether the program we would start is newer than the running service; checked once per process."""
    running = build_of(found)
    if running not in _newer:
        _newer[running] = _installed_build() > running
    return _newer[running]


def build_of(found):
    """Comparable version and API of a service; services before API 2 do not report theirs."""
    api = found.get("api")
    return as_numbers(found.get("version")), api if isinstance(api, int) else 1


def answers(found):
    """Whether the service's address accepts connections."""
    import socket
    from urllib.parse import urlsplit

    address = urlsplit(found.get("url", ""))
    try:
        socket.create_connection((address.hostname, address.port), timeout=5).close()
    except (OSError, TypeError):
        return False
    return True


def _locking():
    try:
        import fcntl
    except ImportError:
        raise ServiceUnavailable("A local Runyard service needs Linux; this is {}.".format(sys.platform),
                                 hint="Set RUNYARD_URL and RUNYARD_TOKEN to a service on a Linux machine.")
    return fcntl


def _installed_build():
    import re
    import subprocess

    try:
        output = subprocess.check_output([executable(home_folder()), "--version"], timeout=20,
                                         env=program_variables(home_folder()))
    except (ServiceUnavailable, OSError, subprocess.SubprocessError):
        return (0,), 0
    words = output.decode("utf-8", "replace")
    api = re.search(r"API (\d+)", words)
    return as_numbers(words.split()[-1] if words.split() else "0"), int(api.group(1)) if api else 1


def program_variables(home):
    """Environment variables for the `runyard` program, without those meant for this interpreter."""
    variables = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_THE_SERVICE}
    variables["RUNYARD_HOME"] = home
    return variables


def _launch(home, how):
    import subprocess

    command = [executable(home), "serve", how]
    _remove(os.path.join(home, "start-error.json"))
    variables = {name: value for name, value in program_variables(home).items() if name not in _OF_A_WORKER}
    with open(os.path.join(home, "service.log"), "ab", opener=private) as log, open(os.devnull) as nothing:
        return subprocess.Popen(command, stdin=nothing, stdout=log, stderr=log, cwd=home, start_new_session=True,
                                env=variables)


def _await(home, process, usable):
    deadline, is_last = time.monotonic() + START_SECONDS, False
    error_file = os.path.join(home, "start-error.json")
    while not is_last:
        is_last = time.monotonic() > deadline  # check once more: this process may have been stopped meanwhile
        found = usable()
        if found:
            process.returncode = 0  # it outlives us on purpose: avoids the ResourceWarning
            return found
        failure = _read(error_file)
        if failure:
            _remove(error_file)
            raise ServiceUnavailable(failure.get("problem", "The service could not start."), failure.get("hint", ""))
        if process.poll() is not None:
            _require_some_space(home)
            raise ServiceUnavailable(
                "'{}' ended with {} before it answered.".format(" ".join(process.args), process.returncode),
                hint="Its last words, from {}:\n{}".format(os.path.join(home, "service.log"), _tail(home)))
        time.sleep(POLL_SECONDS)
    raise ServiceUnavailable("The service did not answer within {} seconds.".format(START_SECONDS),
                             hint="See {}.".format(os.path.join(home, "service.log")))


def _require_some_space(home):
    """Raise on a full disk, where a service that cannot start leaves no error message."""
    import shutil

    if shutil.disk_usage(home).free < _ROOM_FOR_ERROR_BYTES:
        raise ServiceUnavailable("The disk of {} is full, so the service could not start.".format(home),
                                 hint="Free some space, or set RUNYARD_HOME to a folder on another disk.")


def _stop(found):
    """Ask an older service to stop; wait until nothing answers."""
    import http.client
    from urllib.parse import urlsplit

    address = urlsplit(found["url"])
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    try:
        connection.request("POST", "/api/v1/shutdown", headers={"Authorization": "Bearer " + found["token"]})
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        pass  # it may exit before it has answered
    finally:
        connection.close()
    deadline = time.monotonic() + START_SECONDS
    while answers(found) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _read(path):
    try:
        with open(path) as source:
            found = json.load(source)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _read_text(path):
    try:
        with open(path) as source:
            return source.read().strip()
    except OSError:
        return ""


def _remove(path):
    try:
        os.remove(path)
    except OSError:
        pass


def _tail(home, size=2000):
    try:
        with open(os.path.join(home, "service.log"), "rb") as source:
            source.seek(0, os.SEEK_END)
            source.seek(max(0, source.tell() - size))
            return source.read().decode("utf-8", "replace")
    except OSError:
        return "(nothing)"


def as_numbers(version):
    """Comparable tuple of a version: '0.10.1' -> (0, 10, 1). Ignores what follows a non-digit."""
    numbers = []
    for part in str(version).split("."):
        digits = "".join(char for char in part if char.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
