import hashlib
from collections.abc import Iterable
from pathlib import Path

from runyard.core.version import VERSION
from runyard.node.sdk_folder import sdk_digest

_PACKAGES = ("node", "data", "environments", "storage/blobs", "core", "client", "process_logs")


def node_version() -> str:
    """Version of the code that a supervisor runs: it changes with every file of it, released or not."""
    return version_of(_PACKAGES)


def version_of(packages: Iterable[str]) -> str:
    """Version that changes with any file of these packages of `runyard`, or of the SDK."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for part in packages:
        for file in [package / part] if part.endswith(".py") else sorted((package / part).rglob("*.py")):
            digest.update(f"{file.relative_to(package)} {file.stat().st_mtime_ns}\n".encode())
    digest.update(sdk_digest().encode())
    return f"{VERSION}+{digest.hexdigest()[:12]}"
