import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from runyard.core.records.launch_plan import CondaSpec
from runyard.core.url_secrets import has_secret
from runyard.environments.package_sources import PackageSources

USUAL = ("conda-forge",)
TOKEN = re.compile(r"^/t/[^/]+(?=/)")


@dataclass(frozen=True)
class Channels:
    """Conda channels of one build: the user's, with addresses from the workspace's settings.

    The command line, which all users of the machine can read, has only names; addresses go into a configuration file.
    """

    names: tuple[str, ...]
    addresses: Mapping[str, str]
    """Address of each named channel, without the name at its end."""
    renamed: Mapping[str, str]
    """Name here of each channel as the user wrote it."""

    @classmethod
    def of(cls, conda: CondaSpec, sources: PackageSources) -> "Channels":
        names, addresses, renamed = list[str](), dict[str, str](), dict[str, str]()
        for channel in [*(conda.channels or USUAL), *filter(None, map(_channel_of, conda.packages))]:
            address = sources.settings.conda_channels.get(channel, channel).rstrip("/")
            if "://" not in address or (address == channel and not has_secret(address)):
                names.append(address)
                continue
            parent, _, name = address.rpartition("/")
            addresses[name], renamed[channel] = parent, name
            names.append(name)
        listed = names[: len(conda.channels or USUAL)]
        return cls(tuple(dict.fromkeys(listed)), addresses, renamed)

    @property
    def has_logins(self) -> bool:
        return any(has_secret(f"{address}/") for address in self.addresses.values())

    def configuration(self) -> Mapping[str, object]:
        return {"custom_channels": dict(self.addresses)} if self.addresses else {}

    def package(self, line: str) -> str:
        """A line of the user's list with its channel renamed."""
        channel = _channel_of(line)
        return self.renamed[channel] + line[len(channel) :] if channel in self.renamed else line

    def with_login(self, url: str) -> str:
        """The URL of a locked package with the login of its channel."""
        for name, parent in self.addresses.items():
            plain = without_login(f"{parent}/{name}/")
            if url.startswith(plain):
                return f"{parent}/{name}/{url[len(plain) :]}"
        return url


def without_login(url: str) -> str:
    """The URL without user, password and conda token."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], path=TOKEN.sub("", parts.path)))


def _channel_of(line: str) -> str:
    channel, found, _ = line.partition("::")
    return channel if found else ""
