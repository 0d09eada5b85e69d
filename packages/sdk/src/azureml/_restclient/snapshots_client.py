SNAPSHOT_MAX_SIZE_BYTES = 300 * 1024 * 1024
"""Set by scripts to send larger source folders. Unchanged, Runyard warns above it and refuses above 10 GB."""
