from runyard.mounting.errors import MountUnavailable
from runyard.mounting.mounts import Mount, ReadOnlyMount, WritableMount
from runyard.mounting.process import serve_mount, start_mounts

__all__ = ["Mount", "MountUnavailable", "ReadOnlyMount", "WritableMount", "serve_mount", "start_mounts"]
