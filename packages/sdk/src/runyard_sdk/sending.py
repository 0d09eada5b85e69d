from runyard_sdk.errors import RunyardError

SEND_EVERY_SECONDS = 0.05
_REST_AFTER_FAILURE_SECONDS = 1


class Sender:
    """A thread of this process that calls `send` soon after each `wake`, and once more when the process ends.

    `send` is never called twice at once. Where it raises RunyardError it is called again later, `failed` before that.
    """

    def __init__(self, send, failed=lambda: None):
        import atexit
        import threading

        self._send, self._failed = send, failed
        self._wake, self._closed, self._sending = threading.Event(), threading.Event(), threading.Lock()
        threading.Thread(target=self._work, name="runyard-sender", daemon=True).start()
        atexit.register(self._at_exit)

    def wake(self):
        if not self._wake.is_set():
            self._wake.set()

    def flush(self):
        """Send everything now. Raises the service's error where that fails."""
        with self._sending:
            self._send()

    def close(self):
        """End the thread, and send what is left."""
        import atexit

        self._closed.set()
        self._wake.set()
        self.flush()
        atexit.unregister(self._at_exit)

    def _work(self):
        while True:
            self._wake.wait()
            self._closed.wait(SEND_EVERY_SECONDS)
            self._wake.clear()
            try:
                with self._sending:
                    if self._closed.is_set():
                        return  # who closed it sends the rest, and may have closed the file by now
                    self._send()
            except RunyardError:
                self._failed()
                self._closed.wait(_REST_AFTER_FAILURE_SECONDS)
                self._wake.set()

    def _at_exit(self):
        try:
            self.flush()
        except RunyardError:
            pass  # the process is ending: there is nobody left to tell
