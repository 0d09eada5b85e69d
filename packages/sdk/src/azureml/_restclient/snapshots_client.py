SNAPSHOT_MAX_SIZE_BYTES = 300 * 1024 * 1024
"""Scripts raise this to send larger source folders. Runyard warns above 300 MB and refuses above 10 GB or this."""
