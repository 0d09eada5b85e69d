from runyard.errors import InvalidArgument
from runyard.model.runs import RunStatus


def status_of(word: str) -> RunStatus:
    """Raise InvalidArgument that lists the known statuses."""
    try:
        return RunStatus(word)
    except ValueError:
        known = ", ".join(status.value for status in RunStatus)
        raise InvalidArgument(f"There is no status {word!r}. Known: {known}.") from None
