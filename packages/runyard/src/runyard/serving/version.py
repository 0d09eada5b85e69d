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
    """Version of the installed code that a gateway runs; differs for every change of it, released or not."""
    return version_of(_PACKAGES)
