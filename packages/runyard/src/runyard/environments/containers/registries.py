import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

HUB = "docker.io"
_HUB_KEY = "https://index.docker.io/v1/"


@dataclass(frozen=True)
class RegistryCredentials:
    """Sent in a header of the request that needs them; engines do not store them."""

    username: str
    password: str = field(repr=False)
    address: str = ""

    def header(self) -> str:
        return _encoded({"username": self.username, "password": self.password, "serveraddress": _bare(self.address)})


def headers_for_builds(credentials: Mapping[str, RegistryCredentials]) -> dict[str, str]:
    """Header for builds whose FROM lines need logins; credentials by registry address."""
    if not credentials:
        return {}
    known = {
        _key(address): {"username": one.username, "password": one.password} for address, one in credentials.items()
    }
    return {"X-Registry-Config": _encoded(known)}


def split_tag(reference: str) -> tuple[str, str]:
    """Split a reference into name and tag or digest; "latest" if it has neither."""
    name, at, digest = reference.partition("@")
    if at:
        return name, digest
    head, colon, tag = reference.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (reference, "latest")


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


def _bare(address: str) -> str:
    return address.removeprefix("https://").removeprefix("http://").strip("/")


def _key(address: str) -> str:
    bare = _bare(address)
    return _HUB_KEY if bare in ("", HUB, "index.docker.io", "index.docker.io/v1") else bare
