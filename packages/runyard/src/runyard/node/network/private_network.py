import contextlib
import functools
import os
import select
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from runyard.core.errors import EngineError
from runyard.node.network import namespaces
from runyard.node.network.loopback import ports_to_reach, use_upstream_name_servers, why_no_names
from runyard.node.network.pasta import find_pasta, start_pasta
from runyard.node.processes.procfs import die_with_parent

_INSTALL = "Install passt: apt-get install passt (Debian, Ubuntu), dnf install passt (Fedora, RHEL)."
_END_SECONDS = 5.0


class PrivateNetwork:
    """A network namespace for the processes of one attempt: only they can connect to servers in it.

    It has its own loopback, 127.0.0.0/8, but 127.0.0.1 also reaches the ports of this machine's 127.0.0.1 that had a
    listener when it was made, and always the service and proxies. Other addresses are reached as usual. It exists
    until `close`, or until the process that made it ends.
    """

    def __init__(self, pid: int, descriptors: tuple[int, ...], connect: Callable[[], int] | None = None) -> None:
        """`connect` starts the process that connects it to the outside; None for a process that joined it."""
        self.pid = pid
        """Process by which other tasks on this machine join it."""
        self._descriptors, self._connect = descriptors, connect
        self.connection: int | None = None
        """Pid of pasta, a child of the process that made the network."""

    @classmethod
    def make(cls, folder: Path, variables: Mapping[str, str]) -> "PrivateNetwork":
        """Make a network. `folder`: for temporary files. `variables`: those of the run, which name the service and
        proxies. Raises EngineError where it is not possible."""
        reason = why_no_private_network()
        program = find_pasta()
        if reason or program is None:
            raise EngineError(f"There is no private network: {reason}")
        holder = _fork_holder()
        ports = ports_to_reach(variables)
        network = cls(holder, (), lambda: start_pasta(program, holder, folder, ports))
        try:
            network.reconnect()
            network._descriptors = namespaces.open_network_of(holder)
        except BaseException:
            network.close()
            raise
        return network

    @classmethod
    def join(cls, pid: int) -> "PrivateNetwork":
        """Join the network of another process of this user. EngineError when that is gone."""
        try:
            return cls(pid, namespaces.open_network_of(pid))
        except OSError as e:
            raise EngineError(f"The run's private network cannot be joined: {e.strerror}.") from e

    def enter(self) -> None:
        """Move a forked child into the network, before it executes its program."""
        namespaces.enter(self._descriptors)
        use_upstream_name_servers()

    @property
    def pids(self) -> frozenset[int]:
        """Processes that hold the network, children of the one that made it; none for one that joined."""
        if self._connect is None:
            return frozenset()
        return frozenset({self.pid} if self.connection is None else {self.pid, self.connection})

    def reconnect(self) -> int:
        """Start pasta again. EngineError where that fails."""
        if self._connect is None:
            raise EngineError("Only who made a private network connects it.")
        self.connection = None
        self.connection = self._connect()
        return self.connection

    def close(self) -> None:
        """Close the descriptors, and end the processes that hold the network. Safe to call twice."""
        for pid in self.pids:
            _end(pid)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self.connection, self._connect, self._descriptors = None, None, ()


def why_no_private_network(variables: Mapping[str, str] = os.environ) -> str:
    """Why runs of this process cannot have a private network; "" when they can."""
    if variables.get("RUNYARD_NETWORK") == "host":
        return "RUNYARD_NETWORK=host says so."
    if find_pasta() is None:
        return f"The program pasta is not on PATH. {_INSTALL}"
    if not os.path.exists("/dev/net/tun"):
        return "This machine has no /dev/net/tun."
    if namespaces.has_identity_of_its_own():
        return "The run mounts data as an ordinary user, whose mounts and networks cannot be shared by several nodes."
    return why_no_names() or _why_no_namespace()


@functools.cache
def _why_no_namespace() -> str:
    """Try it once in a child: the kernel's answer does not change."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _try_namespace(write_end)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as pipe:
        reason = pipe.read()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    return reason


def _try_namespace(write_end: int) -> None:
    try:
        namespaces.unshare_network()
    except OSError as e:
        os.write(write_end, f"The kernel allows this user no network namespace ({e.strerror}).".encode())
    finally:
        os._exit(0)


def _fork_holder() -> int:
    """Fork a process that sleeps in a new network namespace, and ends with this one."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _hold(write_end, parent)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as pipe:
        if pipe.read() != "ready":
            raise EngineError("The kernel gave no network namespace, though it did before.")
    return pid


def _hold(write_end: int, parent: int) -> None:
    try:
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Nothing of the supervisor may stay open in this process: its lock, its connections.
        os.closerange(0, write_end)
        os.closerange(write_end + 1, os.sysconf("SC_OPEN_MAX"))
        os.setsid()
        namespaces.unshare_network()
        namespaces.drop_capabilities()
        os.write(write_end, b"ready")
        os.close(write_end)
        while True:
            signal.pause()
    finally:
        os._exit(1)


def _end(pid: int) -> None:
    try:
        life = os.pidfd_open(pid)
    except OSError:
        return
    try:
        signal.pidfd_send_signal(life, signal.SIGKILL)
        select.select([life], [], [], _END_SECONDS)
    except ProcessLookupError:
        pass
    finally:
        os.close(life)
    with contextlib.suppress(ChildProcessError):  # the event loop may have reaped it
        os.waitpid(pid, os.WNOHANG)


__all__ = ["PrivateNetwork", "why_no_private_network"]
