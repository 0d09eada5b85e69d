from runyard.data.transfers.block_cache import BlockCache, cache_limit
from runyard.data.transfers.downloads import download
from runyard.data.transfers.reader import Reader
from runyard.data.transfers.uploads import upload

__all__ = ["BlockCache", "Reader", "cache_limit", "download", "upload"]
