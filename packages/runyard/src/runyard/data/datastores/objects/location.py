from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from runyard.core.errors import InvalidArgument
from runyard.core.names import quoted_text
from runyard.core.records.data import StoreAccess
from runyard.data.datastores.paths import check_key


@dataclass(frozen=True)
class BucketLocation:
    """Location of an object store, without secrets: safe for messages and other processes."""

    kind: str
    container: str
    prefix: str
    """Path in the container, without slashes at its ends; empty for the whole container."""
    endpoint: str

    @property
    def identity(self) -> str:
        return f"{self.kind}:{self.endpoint}/{self.container}/{self.prefix}"

    def key(self, path: str) -> str:
        """Object key of a path. Raises InvalidArgument if the store cannot have it."""
        return check_key(path, takes_backslash=self.kind != "azure")

    @property
    def noun(self) -> str:
        return "container" if self.kind == "azure" else "bucket"

    @property
    def shown(self) -> str:
        """For a sentence: "the bucket 'images' at https://..."."""
        return f"the {self.noun} {self.container!r} at {self.endpoint}"


def bucket_location(access: StoreAccess, endpoint: str) -> BucketLocation:
    """Location that `access.root` names. Raises InvalidArgument if it names no bucket or container."""
    container, _, prefix = access.root.strip("/").partition("/")
    if not container or container in (".", "..") or check_key(container) != container:
        raise InvalidArgument(
            f"{quoted_text(access.root)} names no bucket or container.", hint="Give 'bucket' or 'bucket/path/in/it'."
        )
    return BucketLocation(access.kind, container, check_key(prefix) if prefix else "", endpoint.rstrip("/"))


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
