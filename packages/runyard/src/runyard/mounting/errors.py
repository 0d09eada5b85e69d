from runyard.errors import DataFailed


class MountUnavailable(DataFailed):
    """This machine, or this user, has no FUSE mounts; the data can still be downloaded."""

    code, status = "mount_unavailable", 422
