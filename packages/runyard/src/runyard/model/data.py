"""Data on datastores and at web addresses: what is there, how it is reached, what a run is given of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

WEB = ""
"""The store of plain web addresses: its paths are whole addresses."""

DEFAULT_DATASTORE = "workspaceblobstore"


@dataclass(frozen=True)
class StoredFile:
    """One file of a store as it was seen."""

    path: str
    """Below the store's root with '/' between its parts; of WEB the whole address."""
    size: int | None
    """None where a web server does not tell."""
    etag: str = ""
    """Opaque; another one means other bytes. Empty where the store has none."""
    modified_at: datetime | None = None
    is_ranged: bool = True
    """Whether parts of it can be read; else it comes whole, from its beginning."""


@dataclass(frozen=True)
class StoreAccess:
    """How a store is reached, credentials included: kept in memory and on the wire, never in a file, log or error."""

    kind: str
    """"folder", "s3", "azure", "gcs", "web" or "service": a store that is read and written through the service."""
    root: str
    """An absolute folder; "bucket" or "bucket/prefix"; a base address, "" for WEB; "workspace/datastore"."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the kind: endpoint, region, account_name, tenant_id, client_id, authority ..."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class NetworkRules:
    """How data may be read over a network. The defaults are a laptop's."""

    allow_private: bool = True
    """Whether loopback, private and link-local addresses may be connected to (link-local: never)."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Proxies and certificates as environment variables name them, both cases; nothing else is read from there."""
    max_file_bytes: int = 1 << 40
    max_untold_bytes: int = 20 << 30
    """The same for a file whose size its server does not tell: it may never end."""
    max_redirects: int = 10
    silence_seconds: float = 60.0
    """A connection, or a transfer, that brings nothing for so long is broken."""
    retry_seconds: float = 60.0
    """How long a store that does not answer is asked again before it counts as Unreachable."""


@dataclass(frozen=True)
class SourceFile:
    """One file of a dataset: where it lies below the dataset's root, and where its bytes come from."""

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
    """What a run is given of a dataset."""

    files: Sequence[SourceFile]
    is_one_file: bool
    """The dataset names one file, so a mount's path is that of the file."""
    folder: tuple[str, str] | None = None
    """(datastore, path) when the dataset is that whole folder, or that one file, and nothing is left out."""
    changes: Sequence[str] = ()
    """Sentences on what is other than when this version was made; empty when nothing is."""


@dataclass(frozen=True)
class DataForAttempt:
    """Everything a node needs to bring the data of one attempt."""

    datasets: Mapping[str, DatasetFiles]
    """By the name of the input."""
    stores: Mapping[str, StoreAccess]
    network: NetworkRules
