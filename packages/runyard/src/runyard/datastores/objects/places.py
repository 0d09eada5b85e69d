from dataclasses import dataclass

from runyard.datastores.paths import check_key, shown
from runyard.errors import InvalidArgument
from runyard.model.data import StoreAccess


@dataclass(frozen=True)
class Place:
    """Location of an object store, without secrets: safe for messages and other processes."""

    kind: str
    container: str
    prefix: str
    """Without slashes at its ends; empty for the whole container."""
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


def place_of(access: StoreAccess, endpoint: str) -> Place:
    """Location that `access.root` names. Raises InvalidArgument if it names no bucket or container."""
    container, _, prefix = access.root.strip("/").partition("/")
    if not container or container in (".", "..") or check_key(container) != container:
        raise InvalidArgument(
            f"{shown(access.root)} names no bucket or container.", hint="Give 'bucket' or 'bucket/path/in/it'."
        )
    return Place(access.kind, container, check_key(prefix) if prefix else "", endpoint.rstrip("/"))
