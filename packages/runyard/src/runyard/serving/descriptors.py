"""File descriptors: the gateway needs one for each of its clients, and what it starts has the usual number."""

import resource

_usual: tuple[int, int] | None = None


def take_all() -> None:
    """As many as this process can have."""
    global _usual
    soft, hard = _usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def have_the_usual() -> None:
    """In a child: many programs walk through all the numbers that they may have, or fail beyond the first thousand."""
    if _usual is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, _usual)
