SNAPSHOT_MAX_SIZE_BYTES = 300 * 1024 * 1024
"""Scripts set this to send larger source folders. Untouched, Runyard warns above it and refuses above 10 GB."""
