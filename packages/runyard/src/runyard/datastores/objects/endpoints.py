from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

AZURE_AUTHORITY = "https://login.microsoftonline.com"


def s3_endpoint(options: Mapping[str, str]) -> str:
    region = options.get("region") or "us-east-1"
    return _with_scheme(options.get("endpoint") or f"s3.{region}.amazonaws.com")


def gcs_endpoint(options: Mapping[str, str]) -> str:
    return _with_scheme(options.get("endpoint") or "storage.googleapis.com")


def azure_endpoint(options: Mapping[str, str]) -> str:
    """URL of the blob service. The option `endpoint` is a URL, or the suffix after '.blob.' as in SDK v1.

    For a host given by IP address or with a port (emulators, proxies) the account is the first part of the path.
    """
    account = options.get("account_name", "")
    endpoint = options.get("endpoint") or "core.windows.net"
    protocol = options.get("protocol") or "https"
    parts = urlsplit(endpoint if "://" in endpoint else f"{protocol}://{endpoint}")
    if parts.path.strip("/") or not _is_emulator(parts.netloc):
        return endpoint if "://" in endpoint else f"{protocol}://{account}.blob.{endpoint}"
    return f"{parts.scheme}://{parts.netloc}/{account}"


def _with_scheme(endpoint: str) -> str:
    return endpoint if "://" in endpoint else f"https://{endpoint}"


def _is_emulator(netloc: str) -> bool:
    host, _, port = netloc.rpartition(":")
    if host and port.isdigit():
        return True
    try:
        ip_address(netloc.strip("[]"))
    except ValueError:
        return netloc == "localhost"
    return True
