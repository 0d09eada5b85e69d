import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import IO

from runyard.errors import Json, RunyardError
from runyard.node.ending import obstacle
from runyard.node.processes import die_with_parent

Tell = Callable[[Json], None]


class Errand:
    """A function run in a forked child, so that the supervisor's loop goes on, and can kill it at any moment.

    `fileno` is readable when there are messages for `read`. Once `is_over`, `done` has the result or `error` why there
    is none; neither is set when the child was killed.
    """

    def __init__(
        self, work: Callable[[Tell], Json], on_news: Callable[[Json], None], *, kept_out: Sequence[int]
    ) -> None:
        """`on_news` gets the messages of `work`. `kept_out`: descriptors that the child closes, as the task's lock."""
        self.done: Json | None = None
        self.error: Json | None = None
        self.is_over = False
        self._on_news, self._unread = on_news, b""
        self._pipe, write_end = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            for descriptor in (self._pipe, *kept_out):
                os.close(descriptor)
            _be_the_child(work, write_end, parent)
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

    def _take(self, news: Json) -> None:
        if "done" in news:
            self.done = news["done"]
        elif "error" in news:
            self.error = news["error"]
        else:
            self._on_news(news)


def _be_the_child(work: Callable[[Tell], Json], pipe: int, parent: int) -> None:
    try:
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with os.fdopen(pipe, "w", encoding="utf-8") as news:
            _do(work, news)
    finally:
        os._exit(0)  # whatever happens: the callers' code belongs to the parent


def _do(work: Callable[[Tell], Json], news: IO[str]) -> None:
    try:
        done = work(lambda body: _tell(news, body))
        _tell(news, {"done": done})
    except RunyardError as e:
        facts = {name: str(e.facts[name]) for name in ("cause", "said") if e.facts.get(name)}
        _tell(news, {"error": {"code": "UserError", "message": str(e), **facts}})
    except BaseException as e:  # reported to the supervisor
        message = obstacle(e) if isinstance(e, OSError) else str(e)
        _tell(news, {"error": {"code": "ServiceError", "message": f"{type(e).__name__}: {message}"}})
        # After the message: the log may lie on a full disk.
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()


def _tell(news: IO[str], body: Json) -> None:
    news.write(json.dumps(body) + "\n")
    news.flush()
