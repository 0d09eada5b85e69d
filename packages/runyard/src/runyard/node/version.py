import hashlib
from pathlib import Path

from runyard.version import VERSION


def node_version() -> str:
    """Differs whenever the code a supervisor would run differs, released or not."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for folder in ("node", "environments", "planning", "model"):
        for file in sorted((package / folder).glob("*.py")):
            digest.update(f"{file.name} {file.stat().st_mtime_ns}\n".encode())
    return f"{VERSION}+{digest.hexdigest()[:12]}"
