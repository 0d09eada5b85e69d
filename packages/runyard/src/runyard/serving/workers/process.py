import asyncio
import contextlib
import itertools
import os
import signal
import socket
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, Popen

from runyard.core.records.web_services import ServiceFailure
from runyard.core.umask import users_umask
from runyard.node.processes.procfs import count_oom_kills, die_with_parent, raise_oom_score
from runyard.node.processes.stack_dump import dump_stack
from runyard.serving.revision import Revision, app_root, start_facts
from runyard.serving.service_folder import ServiceFolder
from runyard.serving.service_log import ServiceLog
from runyard.serving.workers.descriptor_limit import restore_descriptor_limit
from runyard.serving.workers.link import InitFailure, WorkerFacts, WorkerLink
from runyard.serving.workers.process_tree import cpu_seconds, kill_worker_tree, peak_bytes, resident_bytes, tree_of
from runyard.serving.workers.variables import worker_variables

_EOF_SECONDS = 0.5
"""Wait for the end of the socket: a child process of the script may hold it open."""
_EXIT_SECONDS = 2.0
_LAST_LINES = 30
_numbers = itertools.count(1)


def _set_up_child(parent: int) -> None:
    die_with_parent(parent)
    restore_descriptor_limit()


class WorkerFailed(Exception):
    """A worker did not become ready; `failure` has the message for the user."""

    def __init__(self, failure: ServiceFailure) -> None:
        super().__init__(failure.problem)
        self.failure = failure


class WorkerProcess:
    """One worker process and all processes that it starts.

    Three futures: `ready` gets its facts or WorkerFailed; `died` gets the cause of its end as text; `ended` is done
    once no process that it started is left.
    """

    def __init__(self, folder: ServiceFolder, revision: Revision, log: ServiceLog, sdk: Path) -> None:
        self._folder, self._revision, self._log, self._sdk = folder, revision, log, sdk
        self._loop = asyncio.get_running_loop()
        self.name = f"{folder.id}/{os.getpid()}.{next(_numbers)}"
        self.link = WorkerLink(self, requests_at_once=revision.requests_at_once)
        self.ready: asyncio.Future[WorkerFacts] = self._loop.create_future()
        self.died: asyncio.Future[str] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.pid, self.peak_bytes = 0, 0
        self._failure: InitFailure | None = None
        self._why, self._is_finishing, self._is_dumping = "", False, False
        self._closed, self._dead = asyncio.Event(), asyncio.Event()
        self._log_start, self._kernel_kills = log.end(), count_oom_kills()

    def start(self) -> None:
        """Start the process and watch for its end. Raises OSError when it cannot be started."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = self._spawn(theirs)
        except OSError:
            ours.close()
            raise
        self.pid = self._process.pid
        raise_oom_score(self.pid)
        self._life = self._loop.create_task(self._run(ours))

    async def finish(self, grace_seconds: float) -> None:
        """Close its socket, so that it exits; kill it after the grace time; return when no process is left."""
        self._is_finishing = True
        self.link.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._dead.wait()
        self.kill("The worker was asked to end.")
        await asyncio.shield(self.ended)

    def kill(self, why: str) -> None:
        """Kill it; all that it started is killed too. `why` becomes the published cause."""
        if not self._dead.is_set():
            self._why = self._why or why
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    async def kill_with_stack(self, why: str) -> None:
        """Write its stack to the log, which takes at most two seconds, then `kill` it."""
        self._why = self._why or why
        if self._is_dumping or self._dead.is_set():
            return
        self._is_dumping = True
        stack = await asyncio.to_thread(dump_stack, self.pid)
        self._log.write_line(f"{self._why} What worker {self.pid} was doing:\n{stack.rstrip()}")
        self.kill(why)

    def measure(self) -> int:
        """Resident bytes of its process tree; also updates the peak."""
        held = resident_bytes(tree_of(self.pid))
        self.peak_bytes = max(self.peak_bytes, held, peak_bytes(self.pid))
        return held

    def usage(self) -> dict[str, object]:
        """Metrics of this worker."""
        return {
            "pid": self.pid,
            "requests": self.link.requests_answered,
            "memory_bytes": self.measure(),
            "peak_memory_bytes": self.peak_bytes,
            "cpu_seconds": cpu_seconds(tree_of(self.pid)),
        }

    def last_lines(self) -> str:
        """Last lines of the log since it started."""
        return self._log.since(self._log_start, _LAST_LINES)

    # Callbacks of the link (LinkOwner):

    def became_ready(self, facts: WorkerFacts) -> None:
        if not self.ready.done():
            self.ready.set_result(facts)

    def failed(self, failure: InitFailure) -> None:
        self._failure = failure

    def closed(self, why: str) -> None:
        self._closed.set()

    def hung(self, why: str) -> None:
        self._dump = self._loop.create_task(self.kill_with_stack(why))

    def _spawn(self, theirs: socket.socket) -> "Popen[bytes]":
        return Popen(
            [self._revision.python, "-m", "runyard_sdk.scoring.worker", str(theirs.fileno())],
            stdin=DEVNULL,
            stdout=self._log.fileno(),
            stderr=self._log.fileno(),
            cwd=app_root(self._folder, self._revision.number),
            env=worker_variables(self._folder, self._revision, self._sdk, self.name),
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            umask=users_umask(),
            preexec_fn=partial(_set_up_child, os.getpid()),
        )

    async def _run(self, ours: socket.socket) -> None:
        exited = self._loop.create_task(self._exit())
        try:
            await self._loop.create_unix_connection(lambda: self.link, sock=ours)
            self.link.start(start_facts(self._folder, self._revision))
        except Exception as error:  # whoever ends the worker waits for the end of this task
            self.kill(f"The worker could not be told what to load: {type(error).__name__}: {error}.")
        closed = self._loop.create_task(self._closed.wait())
        await asyncio.wait((exited, closed), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((exited,), timeout=_EXIT_SECONDS if not self._is_finishing else None)
        if not exited.done():
            self.kill("The worker closed its connection.")
            await exited
        # Read the answers that it had written before its end.
        await asyncio.wait((closed,), timeout=_EOF_SECONDS)
        self.link.abort()
        self._settle(exited.result())
        await asyncio.to_thread(kill_worker_tree, self._folder.home, self.name)
        self.ended.set_result(None)

    async def _exit(self) -> int:
        pidfd, gone = os.pidfd_open(self.pid), asyncio.Event()
        try:
            self._loop.add_reader(pidfd, gone.set)
            await gone.wait()
        finally:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
        self._dead.set()
        return self._process.wait()

    def _settle(self, code: int) -> None:
        """Resolve `ready` and `died` after its end."""
        self._why = self._why or self._cause(code)
        if not self.ready.done():
            self.ready.set_exception(WorkerFailed(self._init_failure()))
            self.ready.exception()  # marks it as retrieved: nobody may be waiting
        if not self._is_finishing:
            self._log.write_line(f"Worker {self.pid}: {self._why}")
        self.link.lost(self._why)
        self.died.set_result(self._why)

    def _cause(self, code: int) -> str:
        if code == -signal.SIGKILL and count_oom_kills() > self._kernel_kills:
            return "The kernel killed the worker because memory ran out."
        if code < 0:
            return f"The worker was ended by {signal.Signals(-code).name}."
        return f"The worker ended with exit code {code}."

    def _init_failure(self) -> ServiceFailure:
        failure = self._failure
        if failure is not None:
            return ServiceFailure(failure.problem, failure.hint, "init", failure.traceback, self.last_lines())
        problem = f"{self._why} That was before init() was done."
        return ServiceFailure(problem, "Its last lines say more.", "init", "", self.last_lines())
