"""Data on datastores and at web addresses: files, access to them, and what a run gets of a dataset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

WEB = ""
"""Name of the store of plain web addresses: a path there is a whole address."""

DEFAULT_DATASTORE = "workspaceblobstore"


@dataclass(frozen=True)
class StoredFile:
    """One file of a store as it was when it was listed."""

    path: str
    """Path below the store's root with '/' between its parts; for WEB the whole address."""
    size: int | None
    """None if the web server does not report it."""
    etag: str = ""
    """Opaque; a different etag means different bytes. Empty if the store has none."""
    modified_at: datetime | None = None
    is_ranged: bool = True
    """True if ranges of it can be read; otherwise it can only be read as a whole, from its beginning."""


@dataclass(frozen=True)
class StoreAccess:
    """Address and credentials of a store. Kept in memory and on the wire, never in a file, log or error."""

    kind: str
    """"folder", "s3", "azure", "gcs", "web" or "service": a store that is read and written through the service."""
    root: str
    """An absolute folder; "bucket" or "bucket/prefix"; a base address, "" for WEB; "workspace/datastore"."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the kind: endpoint, region, account_name, tenant_id, client_id, authority ..."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@dataclass(frozen=True)
class NetworkRules:
    """Limits for reading data over a network. The defaults suit a laptop."""

    allow_private: bool = True
    """Allow connections to loopback and private addresses. Link-local addresses are never allowed."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables for proxies and certificates, in lower and upper case. Others are ignored."""
    max_file_bytes: int = 1 << 40
    max_untold_bytes: int = 20 << 30
    """The same limit for a file whose size the server does not report: it may never end."""
    max_redirects: int = 10
    silence_seconds: float = 60.0
    """A connection or transfer without data for this long counts as broken."""
    retry_seconds: float = 60.0
    """How long requests to a silent store are retried before Unreachable is raised."""

    @property
    def certificates_variable(self) -> str:
        """The variable that names the certificates to trust, in a file or a folder; "" if none is set."""
        return next((name for name in _CERTIFICATES if self.variables.get(name)), "")


@dataclass(frozen=True)
class SourceFile:
    """One file of a dataset: its path below the dataset's root, and the source of its bytes."""

    path: str
    store: str
    """Name of a datastore, or WEB."""
    key: str
    """Its path on that store, or its address."""
    size: int | None
    etag: str = ""
    is_ranged: bool = True


@dataclass(frozen=True)
class DatasetFiles:
    """The files that a run gets of a dataset."""

    files: Sequence[SourceFile]
    is_one_file: bool
    """True if the dataset names one file; a mount then gives the path of that file."""
    folder: tuple[str, str] | None = None
    """(datastore, path) if the dataset is exactly this whole folder or this one file."""
    changes: Sequence[str] = ()
    """Sentences on what has changed since this version was created; empty if nothing has."""


@dataclass(frozen=True)
class DataForAttempt:
    """Everything that a node needs to stage the data of one attempt."""

    datasets: Mapping[str, DatasetFiles]
    """Datasets by the name of the input."""
    stores: Mapping[str, StoreAccess]
    network: NetworkRules
