from runyard.transfers.block_cache import BlockCache
from runyard.transfers.downloading import download
from runyard.transfers.limits import cache_limit
from runyard.transfers.reading import Reader
from runyard.transfers.uploading import upload

__all__ = ["BlockCache", "Reader", "cache_limit", "download", "upload"]
