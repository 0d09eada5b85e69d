import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import IO

from runyard.core.errors import Json, RunyardError
from runyard.node.processes.exit_report import describe_os_error
from runyard.node.processes.procfs import die_with_parent

Notify = Callable[[Json], None]


class ForkedTask:
    """A function run in a forked child, so that the supervisor's loop goes on, and can kill it at any moment.

    `fileno` is readable when there are messages for `read`. Once `is_over`, `done` has the result or `error` why there
    is none; neither is set when the child was killed.
    """

    def __init__(
        self, work: Callable[[Notify], Json], on_message: Callable[[Json], None], *, kept_out: Sequence[int]
    ) -> None:
        """`on_message` gets the messages of `work`. `kept_out`: descriptors that the child closes, such as the
        task's lock."""
        self.done: Json | None = None
        self.error: Json | None = None
        self.is_over = False
        self._on_message, self._unread = on_message, b""
        self._pipe, write_end = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            for descriptor in (self._pipe, *kept_out):
                os.close(descriptor)
            _run_child(work, write_end, parent)
        os.close(write_end)
        os.set_blocking(self._pipe, False)

    def fileno(self) -> int:
        return self._pipe

    def read(self) -> None:
        """Read the messages of the child. Never blocks."""
        try:
            while piece := os.read(self._pipe, 1 << 16):
                self._unread += piece
        except BlockingIOError:
            pass
        else:
            self.is_over = True
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def close(self) -> None:
        os.close(self._pipe)

    def _take(self, message: Json) -> None:
        if "done" in message:
            self.done = message["done"]
        elif "error" in message:
            self.error = message["error"]
        else:
            self._on_message(message)


def _run_child(work: Callable[[Notify], Json], pipe: int, parent: int) -> None:
    try:
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with os.fdopen(pipe, "w", encoding="utf-8") as stream:
            _run_work(work, stream)
    finally:
        os._exit(0)  # whatever happens: the callers' code belongs to the parent


def _run_work(work: Callable[[Notify], Json], stream: IO[str]) -> None:
    try:
        done = work(lambda body: _write_message(stream, body))
        _write_message(stream, {"done": done})
    except RunyardError as e:
        facts = {name: str(e.facts[name]) for name in ("cause", "said") if e.facts.get(name)}
        _write_message(stream, {"error": {"code": "UserError", "message": str(e), **facts}})
    except BaseException as e:  # reported to the supervisor
        message = describe_os_error(e) if isinstance(e, OSError) else str(e)
        _write_message(stream, {"error": {"code": "ServiceError", "message": f"{type(e).__name__}: {message}"}})
        # After the message: the log may lie on a full disk.
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()


def _write_message(stream: IO[str], body: Json) -> None:
    stream.write(json.dumps(body) + "\n")
    stream.flush()
