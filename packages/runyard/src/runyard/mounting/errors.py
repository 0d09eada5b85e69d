from runyard.errors import DataFailed


class MountUnavailable(DataFailed):
    """FUSE mounts do not work on this machine or for this user. The data can be downloaded instead."""

    code, status = "mount_unavailable", 422
