from runyard.datastores.creating import create_root
from runyard.datastores.opening import open_store

__all__ = ["create_root", "open_store"]
