from runyard.node.version import version_of

_PACKAGES = (
    "serving",
    "node",
    "environments",
    "blobs",
    "planning",
    "model",
    "ports",
    "errors.py",
    "listen_settings.py",
    "run_folders.py",
    "umask.py",
)


def gateway_version() -> str:
    """Differs whenever the code that a gateway would run differs, released or not."""
    return version_of(_PACKAGES)
