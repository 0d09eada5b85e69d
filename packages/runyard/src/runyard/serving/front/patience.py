from runyard.serving.front.reception import Reception


class Patience:
    """Timeouts of one connection, counted in ticks of its ConnectionSet: a request reads no clock and sets no timer."""

    def __init__(self, state: Reception) -> None:
        self._state = state
        self._since = state.connections.ticks
        self._silent_ticks = self._stalled_ticks = self._left = 0
        self._unread = self._unread_since = 0
        self.has_begun = False
        """Whether a request has ever started."""
        self.has_received = False
        """Whether any byte arrived since the last check."""

    def begin(self) -> None:
        """Restart the clock, for a request or for the wait for one."""
        self._since = self._state.connections.ticks
        self.has_begun = True

    def is_over(self, seconds: float) -> bool:
        return (self._state.connections.ticks - self._since) * self._state.limits.check_seconds >= seconds

    def idled_out(self) -> bool:
        limits = self._state.limits
        return self.is_over(limits.kept_seconds if self.has_begun else limits.head_seconds)

    def body_is_late(self, received: int) -> bool:
        """Call at every check while a body is arriving."""
        limits = self._state.limits
        self._silent_ticks = 0 if self.has_received else self._silent_ticks + 1
        self.has_received = False
        if self._silent_ticks * limits.check_seconds >= limits.silence_seconds:
            return True
        return self.is_over(limits.body_seconds + received / limits.slowest_bytes_per_second)

    def set_unread(self, size: int) -> None:
        """Bytes of answers that the client did not read at once; 0 when it has read all."""
        self._unread, self._unread_since = size, self._state.connections.ticks

    def is_stalled(self, left: int) -> bool:
        """Call at every check with the bytes of answers that the client has not read yet."""
        limits = self._state.limits
        if self._unread:
            seconds = (self._state.connections.ticks - self._unread_since) * limits.check_seconds
            if seconds >= limits.body_seconds + (self._unread - left) / limits.slowest_bytes_per_second:
                return True
        self._stalled_ticks = self._stalled_ticks + 1 if left and left == self._left else 0
        self._left = left
        return self._stalled_ticks * limits.check_seconds >= limits.silence_seconds
