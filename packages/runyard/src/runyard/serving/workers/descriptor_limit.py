"""Limit of open file descriptors: raised for the gateway, which needs one per client, and restored in its workers."""

import resource

_original: tuple[int, int] | None = None


def raise_descriptor_limit() -> None:
    """Raise the soft limit of this process to its hard limit."""
    global _original
    soft, hard = _original = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def restore_descriptor_limit() -> None:
    """Restore the original limit in a child: many programs loop over all possible descriptors, or fail above 1024."""
    if _original is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, _original)
