"""The first process of a run's container: `starter.py FILE` starts what the JSON file lists, and stays until no process
of the container is left.

{"work", "home", "news", "shown": {path: device}, "processes": [{"name", "command", "expands", "variables", "in_front",
"log", "files"}]}. It reports to its node by lines on the fifo `news`:

    started                     every process that could be
    ended NAME WAIT_STATUS OUT_OF_MEMORY_KILLS
    failed NAME WHY             the process could not be started, or with NAME "-" none could
    asked SIGNAL                the container is asked to stop from outside; every process in it gets SIGTERM

The file `news` + ".ended" has lines "NAME WAIT_STATUS", for a supervisor that did not read the fifo.

Runs alone on any Python from 3.6 on.
"""

import json
import os
import signal
import sys

sys.dont_write_bytecode = sys.dont_write_bytecode or __name__ == "__main__"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from process_setup import prefer_for_out_of_memory, print_into, with_variables  # type: ignore[import-not-found] # noqa: E402

if False:  # the module is slow to load
    from typing import Any

NOT_STARTED = 127
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
KILL_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


class EventWriter:
    """Writes lines for the node. Does nothing once the supervisor is gone."""

    def __init__(self, path: str) -> None:
        try:
            self.fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            self.fd = -1

    def write(self, *words: "object") -> None:
        line = " ".join(str(word) for word in words).replace("\n", " ")
        try:
            os.write(self.fd, line.encode("utf-8", "replace")[:4000] + b"\n")
        except OSError:
            self.fd = -1


def main(file: str) -> int:
    with open(file, "rb") as stream:
        part = json.loads(stream.read().decode("utf-8"))
    events = EventWriter(part["news"])
    missing = unseen(part["shown"])
    if missing:
        events.write("failed", "-", f"the engine does not see what this machine has mounted at {missing}")
        return NOT_STARTED
    pass_signals_on(events)
    running = start_all(part, events)
    events.write("started")
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return 0
        if pid in running:
            name = running.pop(pid)
            keep(part["news"] + ".ended", name, status)
            events.write("ended", name, status, out_of_memory_kills())


def keep(file: str, name: str, status: int) -> None:
    """Write the status to disk, for a supervisor that comes after a killed one."""
    try:
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, f"{name} {status}\n".encode())
        os.fsync(fd)
        os.close(fd)
    except OSError:
        return


def unseen(shown: "dict[str, int]") -> str:
    """A path where the container sees another file system than the machine; "" when there is none."""
    for path, device in shown.items():
        try:
            if os.stat(path).st_dev != device:
                return path
        except OSError:
            return path
    return ""


def pass_signals_on(events: EventWriter) -> None:
    def on_signal(number: int, frame: "Any") -> None:
        events.write("asked", number)
        if os.getpid() == 1:  # in its own PID namespace: -1 means all processes in it
            os.kill(-1, signal.SIGTERM)

    for number in STOP_SIGNALS:
        signal.signal(number, on_signal)


def start_all(part: "dict[str, Any]", events: EventWriter) -> "dict[int, str]":
    """Start all processes. Returns their names by pid when each has executed its program, or failed to."""
    not_yet, held = os.pipe()
    running = {start(process, part, events): process["name"] for process in part["processes"]}
    os.close(held)
    os.read(not_yet, 1)  # Returns when the last child has closed the other end, by exec or exit.
    os.close(not_yet)
    return running


def start(process: "dict[str, Any]", part: "dict[str, Any]", events: EventWriter) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        become(process, part)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        events.write("failed", process["name"], why)
        os.write(2, f"Runyard: {why}.\n".encode("utf-8", "replace"))
    finally:
        os._exit(NOT_STARTED)


def become(process: "dict[str, Any]", part: "dict[str, Any]") -> None:
    for number in (*STOP_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    print_into(process["log"])
    prefer_for_out_of_memory()
    open_few_files(process["files"])
    variables = variables_of(process, part["home"])
    command = process["command"]
    if process["expands"]:
        command = command[:1] + [with_variables(word, variables) for word in command[1:]]
    os.chdir(part["work"])
    try:
        os.execvpe(command[0], command, variables)
    except OSError as error:  # it names the last folder of PATH
        raise OSError(error.errno, error.strerror, command[0]) from None


def variables_of(process: "dict[str, Any]", home: str) -> "dict[str, str]":
    """Variables of the image, with the run's on top."""
    variables = dict(os.environ)
    variables.update(process["variables"])
    for name, value in process["in_front"].items():
        variables[name] = os.pathsep.join(filter(None, (value, variables.get(name, ""))))
    if not os.access(variables.get("HOME") or "/", os.W_OK):
        os.makedirs(home, exist_ok=True)
        variables["HOME"] = home
    return variables


def open_few_files(count: "int | None") -> None:
    """Lower the limit: a launcher of ranks closes every possible descriptor, one by one."""
    if count is not None:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY or soft > count:
            resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def out_of_memory_kills() -> int:
    """Number of OOM kills in this container, 0 where it cannot see its cgroup."""
    for path in KILL_COUNTERS:
        try:
            with open(path) as file:
                return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
        except OSError:
            continue
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
