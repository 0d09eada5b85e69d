import contextlib
import functools
import os
import select
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from runyard.errors import EngineError
from runyard.node.network import namespaces
from runyard.node.network.host_ports import ports_to_reach
from runyard.node.network.names import look_names_up_behind, why_no_names
from runyard.node.network.pasta import find_pasta, start_pasta
from runyard.node.processes import die_with_parent

_INSTALL = "Install passt: apt-get install passt (Debian, Ubuntu), dnf install passt (Fedora, RHEL)."
_END_SECONDS = 5.0


class PrivateNetwork:
    """A network that only the processes of one attempt live in: servers there are seen by them alone.

    Every address of 127.0.0.0/8 is theirs, but that 127.0.0.1 reaches what listened on this machine's 127.0.0.1 when
    it was made, and the service and proxies at all times. Other addresses are reached as from outside. It is
    there for as long as the process that made it, whatever ends that, or until `close`.
    """

    def __init__(self, pid: int, descriptors: tuple[int, ...], connect: Callable[[], int] | None = None) -> None:
        """Who made it starts by `connect` the process that carries its connections; None for who joined."""
        self.pid = pid
        """The process by which other parts on this machine join it."""
        self._descriptors, self._connect = descriptors, connect
        self.connection: int | None = None
        """The process that carries its connections, a child of who made it."""

    @classmethod
    def make(cls, folder: Path, variables: Mapping[str, str]) -> "PrivateNetwork":
        """`folder` is for files that are gone when this returns; `variables` are those of the processes, which name the
        service and proxies. EngineError where it cannot be had."""
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
        """The network that another process of this user has made. EngineError when that is gone."""
        try:
            return cls(pid, namespaces.open_network_of(pid))
        except OSError as e:
            raise EngineError(f"The run's private network cannot be joined: {e.strerror}.") from e

    def enter(self) -> None:
        """For a forked child, before it becomes a program: it and what it starts live in this network."""
        namespaces.enter(self._descriptors)
        look_names_up_behind()

    @property
    def pids(self) -> frozenset[int]:
        """The processes that keep it, all children of who made it; none for who joined."""
        if self._connect is None:
            return frozenset()
        return frozenset({self.pid} if self.connection is None else {self.pid, self.connection})

    def reconnect(self) -> int:
        """Have a new process carry its connections. EngineError where there is none to be had."""
        if self._connect is None:
            raise EngineError("Only who made a private network connects it.")
        self.connection = None
        self.connection = self._connect()
        return self.connection

    def close(self) -> None:
        """Leave it, and end what keeps it. Safe to call twice."""
        for pid in self.pids:
            _end(pid)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self.connection, self._connect, self._descriptors = None, None, ()


def why_no_private_network(variables: Mapping[str, str] = os.environ) -> str:
    """What keeps the runs of this process from a network of their own; "" when nothing does."""
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
    """Tried once in a child: the answer is the kernel's and does not change."""
    answer, tell = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _try_namespace(tell)
    os.close(tell)
    with os.fdopen(answer, encoding="utf-8") as told:
        reason = told.read()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    return reason


def _try_namespace(tell: int) -> None:
    try:
        namespaces.unshare_network()
    except OSError as e:
        os.write(tell, f"The kernel allows this user no network namespace ({e.strerror}).".encode())
    finally:
        os._exit(0)


def _fork_holder() -> int:
    """A process that does nothing in a network of its own, and ends with this one."""
    answer, tell = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _hold(tell, parent)
    os.close(tell)
    with os.fdopen(answer, encoding="utf-8") as told:
        if told.read() != "ready":
            raise EngineError("The kernel gave no network namespace, though it did before.")
    return pid


def _hold(tell: int, parent: int) -> None:
    try:
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Nothing of the supervisor may live on in here: its lock, its connections.
        os.closerange(0, tell)
        os.closerange(tell + 1, os.sysconf("SC_OPEN_MAX"))
        os.setsid()
        namespaces.unshare_network()
        namespaces.drop_capabilities()
        os.write(tell, b"ready")
        os.close(tell)
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
    with contextlib.suppress(ChildProcessError):  # the event loop may have been quicker
        os.waitpid(pid, os.WNOHANG)
