from runyard.datastores.opening import open_store

__all__ = ["open_store"]
