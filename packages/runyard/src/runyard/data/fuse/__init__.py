from runyard.data.fuse.mounts import Mount, MountUnavailable, ReadOnlyMount, WritableMount
from runyard.data.fuse.process import serve_mount, start_mounts

__all__ = ["Mount", "MountUnavailable", "ReadOnlyMount", "WritableMount", "serve_mount", "start_mounts"]
