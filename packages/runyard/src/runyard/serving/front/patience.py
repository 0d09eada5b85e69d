from runyard.serving.front.reception import Reception


class Patience:
    """How long a connection has been at what it does, counted in looks: no clock is read and no timer set for a
    request."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._since = reception.crowd.look_count
        self._silent_looks = self._stalled_looks = self._left = 0
        self._owed = self._owed_since = 0
        self.has_begun = False
        """Whether a request ever was."""
        self.came = False
        """Whether anything came since the last look."""

    def begin(self) -> None:
        """Something new: a request, or the wait for one."""
        self._since = self._reception.crowd.look_count
        self.has_begun = True

    def is_over(self, seconds: float) -> bool:
        return (self._reception.crowd.look_count - self._since) * self._reception.limits.look_seconds >= seconds

    def idled_out(self) -> bool:
        limits = self._reception.limits
        return self.is_over(limits.kept_seconds if self.has_begun else limits.head_seconds)

    def body_is_late(self, received: int) -> bool:
        """To be asked at every look while a body is coming."""
        limits = self._reception.limits
        self._silent_looks = 0 if self.came else self._silent_looks + 1
        self.came = False
        if self._silent_looks * limits.look_seconds >= limits.silence_seconds:
            return True
        return self.is_over(limits.body_seconds + received / limits.slowest_bytes_per_second)

    def owe(self, size: int) -> None:
        """So much of the answers was not taken at once; 0: it is now."""
        self._owed, self._owed_since = size, self._reception.crowd.look_count

    def is_stalled(self, left: int) -> bool:
        """To be asked at every look with how much of the answers is not taken yet."""
        limits = self._reception.limits
        if self._owed:
            seconds = (self._reception.crowd.look_count - self._owed_since) * limits.look_seconds
            if seconds >= limits.body_seconds + (self._owed - left) / limits.slowest_bytes_per_second:
                return True
        self._stalled_looks = self._stalled_looks + 1 if left and left == self._left else 0
        self._left = left
        return self._stalled_looks * limits.look_seconds >= limits.silence_seconds
