import hashlib
from pathlib import Path

from runyard.node.sdk_folder import sdk_digest
from runyard.version import VERSION


def node_version() -> str:
    """Differs whenever the code a supervisor would run differs, released or not."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for folder in ("node", "environments", "planning", "model"):
        for file in sorted((package / folder).glob("*.py")):
            digest.update(f"{file.name} {file.stat().st_mtime_ns}\n".encode())
    digest.update(sdk_digest().encode())
    return f"{VERSION}+{digest.hexdigest()[:12]}"
