"""Where the packages of an environment come from: the workspace's settings over the submitter's own choice."""

import hashlib
import json
import os
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from runyard.environments.indexes import ALL_INDEXES, WORKSPACE_INDEX, pip_settings, uv_configuration
from runyard.model.package_settings import NEVER, PackageSettings
from runyard.planning.passwords import has_secret, hidden

CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "CONDA_SSL_VERIFY")
PROXY_VARIABLES = (
    "http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
)  # fmt: skip
SPARED_FROM_PROXIES = ("no_proxy", "NO_PROXY")
INDEX_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"),
    "extra-index-url": ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
    "find-links": ("UV_FIND_LINKS", "PIP_FIND_LINKS"),
    "no-index": ("UV_NO_INDEX", "PIP_NO_INDEX"),
}
"""Variables that choose where packages come from, by pip's name for it; uv's own win."""
CERTIFICATES_FILE = "certificates.pem"
SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


@dataclass(frozen=True)
class Sources:
    """Of one build. `variables` are the submitter's.

    A workspace that names an index replaces all that the submitter chose; else its extra indexes and wheel folders
    come in front of theirs.
    """

    variables: Mapping[str, str]
    settings: PackageSettings = field(default_factory=PackageSettings)

    @property
    def key(self) -> str:
        """Tells apart environments from other indexes or channels, or with another configuration of uv; "" where nobody
        chose one. Passwords make no difference."""
        chosen = self._chosen()
        channels = [f"{name} {address}" for name, address in sorted(self.settings.conda_channels.items())]
        chosen |= {"conda-channels": channels, "conda": [self.settings.conda] if self.settings.conda == NEVER else []}
        # uv obeys its configuration, a company's index in it for one: what it makes goes by that.
        chosen["uv"] = [] if self.settings.index_url else uv_configuration(self.variables)
        told = {kind: [hidden(place).rstrip("/") for place in places] for kind, places in chosen.items() if places}
        if not told:
            return ""
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of this machine among the indexes and wheel folders."""
        places = [place for kind in ("index-url", "extra-index-url", "find-links") for place in self._chosen()[kind]]
        return tuple(dict.fromkeys(folder for place in places if (folder := folder_of(place))))

    @property
    def kept_from_images(self) -> tuple[str, ...]:
        """The places that the steps of a Dockerfile cannot be told of: this machine's folders, addresses whose secrets
        the image's history would keep, and those that take certificates which no image has."""
        chosen = self._chosen(pip_settings(self.variables))
        places = [place for kind in ("index-url", "extra-index-url", "find-links") for place in chosen[kind]]
        return tuple(dict.fromkeys(filter(self._is_kept_from_images, places)))

    def in_effect(self, certificates: str = "") -> dict[str, str]:
        """The variables for uv, pip and conda alike, where `certificates` is the path of the bundle they trust."""
        settings = self.settings
        theirs = {name for names in INDEX_VARIABLES.values() for name in names} if settings.index_url else set()
        effective = {name: value for name, value in self.variables.items() if name not in theirs}
        effective |= self._index_variables()
        if settings.trusted_hosts:
            effective["PIP_TRUSTED_HOST"] = _joined(settings.trusted_hosts, effective.get("PIP_TRUSTED_HOST", ""))
            effective["UV_INSECURE_HOST"] = _joined(settings.trusted_hosts, effective.get("UV_INSECURE_HOST", ""))
        if certificates:
            effective |= dict.fromkeys(CERTIFICATE_VARIABLES, certificates)
            effective.pop("SSL_CERT_DIR", None)
        if settings.offline:
            effective |= {"UV_OFFLINE": "1", "CONDA_OFFLINE": "true"}
        return effective

    @contextmanager
    def laid_out(self, scratch: Path) -> Iterator[dict[str, str]]:
        """`in_effect`, the bundle of certificates being a file in `scratch` that is gone at the end."""
        if not self.settings.ca_bundle:
            yield self.in_effect()
            return
        file = scratch / CERTIFICATES_FILE
        file.write_text(self.certificates(), encoding="utf-8")
        try:
            yield self.in_effect(str(file))
        finally:
            file.unlink(missing_ok=True)

    def certificates(self) -> str:
        """The workspace's, then those that the submitter or this machine trusts: a bundle replaces all others. "" where
        the workspace has none."""
        if not self.settings.ca_bundle:
            return ""
        defaults = ssl.get_default_verify_paths()
        places = [self.variables.get("SSL_CERT_FILE"), defaults.cafile, defaults.openssl_cafile, *SYSTEM_BUNDLES]
        also = next((text for place in places if place and (text := _text(place))), "")
        return f"{self.settings.ca_bundle.rstrip()}\n{also}"

    def build_args(self, instead: Mapping[str, str] | None = None) -> dict[str, str]:
        """For a Dockerfile that declares them: what pip and uv read, and proxies. Places that are kept from images are
        told by the addresses that `instead` has for them, or not at all; no value holds a secret."""
        instead, effective = instead or {}, self.in_effect()
        unknown = set(self.kept_from_images) - instead.keys()
        chosen = self._chosen(pip_settings(self.variables))
        told = {
            kind: [instead.get(one, one) for one in places if one not in unknown] for kind, places in chosen.items()
        }
        names = ("PIP_TRUSTED_HOST", "UV_INSECURE_HOST", "UV_INDEX_STRATEGY", *PROXY_VARIABLES)
        arguments = {name: effective[name] for name in names if effective.get(name) and not has_secret(effective[name])}
        if instead:
            arguments |= {name: _joined(("127.0.0.1",), arguments.get(name, ""), ",") for name in SPARED_FROM_PROXIES}
        for flag in chosen["no-index"]:
            arguments |= dict.fromkeys(INDEX_VARIABLES["no-index"], flag)
        return arguments | _told_to_installers(told)

    def withheld(self, instead: Mapping[str, str]) -> tuple[str, ...]:
        """What `build_args` leaves out for the secrets in it or since no container could get there, without them."""
        effective = self.in_effect()
        proxies = [effective[name] for name in PROXY_VARIABLES if has_secret(effective.get(name, ""))]
        unknown = [place for place in self.kept_from_images if place not in instead]
        return tuple(dict.fromkeys(map(hidden, (*unknown, *proxies))))

    def _chosen(self, files: Mapping[str, str] | None = None) -> dict[str, list[str]]:
        """The places of each kind in their order; `files` are settings that the submitter's variables go before."""
        theirs = {} if self.settings.index_url else self._of_submitter(files or {})
        ours = {
            "index-url": [self.settings.index_url] if self.settings.index_url else [],
            "extra-index-url": list(self.settings.extra_index_urls),
            "find-links": list(self.settings.find_links),
        }
        return {kind: list(dict.fromkeys([*ours.get(kind, ()), *theirs.get(kind, ())])) for kind in INDEX_VARIABLES}

    def _of_submitter(self, files: Mapping[str, str]) -> dict[str, list[str]]:
        found = {}
        for kind, names in INDEX_VARIABLES.items():
            given = next((self.variables[name] for name in names if self.variables.get(name)), files.get(kind, ""))
            # An index of uv may have a name of its own, and commas part its wheel folders.
            found[kind] = [re.sub(r"^[\w-]+=(?=\w+://)", "", place) for place in re.split(r"[\s,]+", given) if place]
        return found

    def _index_variables(self) -> dict[str, str]:
        """Told to uv and to pip, each in its own way, where the workspace has a say."""
        settings = self.settings
        if not (settings.index_url or settings.extra_index_urls or settings.find_links):
            return {}
        told = _told_to_installers(self._chosen(pip_settings(self.variables)))
        if settings.index_url:
            # No file may add an index.
            told |= {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", WORKSPACE_INDEX: "1"}
        return told

    def _is_kept_from_images(self, place: str) -> bool:
        needs_certificates = bool(self.settings.ca_bundle) and place.startswith("https:")
        return folder_of(place) is not None or has_secret(place) or needs_certificates


def _told_to_installers(chosen: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Of pip and of uv, the variables that lead to these places."""
    told: dict[str, str] = {}
    if chosen["index-url"]:
        told |= dict.fromkeys(("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), chosen["index-url"][0])
    if chosen["extra-index-url"]:
        told |= dict.fromkeys(("PIP_EXTRA_INDEX_URL", "UV_INDEX"), " ".join(chosen["extra-index-url"]))
        told["UV_INDEX_STRATEGY"] = ALL_INDEXES
    if chosen["find-links"]:
        places = chosen["find-links"]
        told |= {"PIP_FIND_LINKS": " ".join(places), "UV_FIND_LINKS": ",".join(places)}
    return told


def folder_of(place: str) -> Path | None:
    """The folder of this machine that a place is, if it is one."""
    if place.startswith("file:"):
        place = unquote(urlsplit(place).path)
    return Path(place) if os.path.isabs(place) else None


def _joined(ours: Sequence[str], theirs: str, by: str = " ") -> str:
    return by.join(dict.fromkeys([*ours, *re.split(r"[\s,]+", theirs.strip())])).rstrip(by)


def _text(place: str) -> str:
    try:
        return Path(place).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
