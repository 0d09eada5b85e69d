"""Package sources of a build: the workspace's settings merged with the submitter's variables."""

import hashlib
import json
import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from runyard.core.records.environments import NEVER, PackageSettings
from runyard.core.records.files import FileEntry
from runyard.core.url_secrets import has_secret, redacted
from runyard.environments.containers.registries import RegistryCredentials
from runyard.environments.index_settings import ALL_INDEXES, WORKSPACE_INDEX, pip_settings, uv_configuration

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
"""Variables that choose package sources, by the name of pip's setting; uv's variables win."""
CERTIFICATES_FILE = "certificates.pem"
SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


@dataclass(frozen=True)
class PackageSources:
    """Package sources of one build. `variables` are the submitter's.

    If the workspace's settings name an index, the submitter's sources are ignored; else the workspace's extra indexes
    and wheel folders come before the submitter's.
    """

    variables: Mapping[str, str]
    settings: PackageSettings = field(default_factory=PackageSettings)

    @property
    def key(self) -> str:
        """Hash of the chosen indexes, channels and uv configuration, which is part of an environment's key; "" if none
        is chosen. Passwords do not change it."""
        chosen = self._chosen()
        channels = [f"{name} {address}" for name, address in sorted(self.settings.conda_channels.items())]
        chosen |= {"conda-channels": channels, "conda": [self.settings.conda] if self.settings.conda == NEVER else []}
        # uv reads its own configuration files, which may name an index.
        chosen["uv"] = [] if self.settings.index_url else uv_configuration(self.variables)
        values = {
            kind: [redacted(source).rstrip("/") for source in listed] for kind, listed in chosen.items() if listed
        }
        if not values:
            return ""
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def folders(self) -> tuple[Path, ...]:
        """Indexes and wheel folders that are local folders."""
        listed = [source for kind in ("index-url", "extra-index-url", "find-links") for source in self._chosen()[kind]]
        return tuple(dict.fromkeys(folder for source in listed if (folder := local_folder(source))))

    @property
    def hidden_from_images(self) -> tuple[str, ...]:
        """Sources that must not become build arguments of a Dockerfile: local folders, addresses with a secret, which
        the history of the image would keep, and those that need the workspace's certificates."""
        chosen = self._chosen(pip_settings(self.variables))
        listed = [source for kind in ("index-url", "extra-index-url", "find-links") for source in chosen[kind]]
        return tuple(dict.fromkeys(filter(self._is_kept_from_images, listed)))

    def in_effect(self, certificates: str = "") -> dict[str, str]:
        """Variables for uv, pip and conda; `certificates` is the path of the CA bundle they trust."""
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
    def with_certificates(self, scratch: Path) -> Iterator[dict[str, str]]:
        """The variables of `in_effect`, with the CA bundle in a file below `scratch` that is removed at exit."""
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
        """CA bundle: the workspace's certificates and those of the submitter or the system, since a bundle replaces the
        defaults. "" if the workspace has none."""
        if not self.settings.ca_bundle:
            return ""
        defaults = ssl.get_default_verify_paths()
        listed = [self.variables.get("SSL_CERT_FILE"), defaults.cafile, defaults.openssl_cafile, *SYSTEM_BUNDLES]
        also = next((text for source in listed if source and (text := _text(source))), "")
        return f"{self.settings.ca_bundle.rstrip()}\n{also}"

    def build_args(self, instead: Mapping[str, str] | None = None) -> dict[str, str]:
        """Build arguments for a Dockerfile: variables of pip and uv, and proxies. No value contains a secret.

        `instead` has addresses that replace the sources hidden from images; sources without one are left out.
        """
        instead, effective = instead or {}, self.in_effect()
        unknown = set(self.hidden_from_images) - instead.keys()
        chosen = self._chosen(pip_settings(self.variables))
        values = {
            kind: [instead.get(one, one) for one in listed if one not in unknown] for kind, listed in chosen.items()
        }
        names = ("PIP_TRUSTED_HOST", "UV_INSECURE_HOST", "UV_INDEX_STRATEGY", *PROXY_VARIABLES)
        arguments = {name: effective[name] for name in names if effective.get(name) and not has_secret(effective[name])}
        if instead:
            arguments |= {name: _joined(("127.0.0.1",), arguments.get(name, ""), ",") for name in SPARED_FROM_PROXIES}
        for flag in chosen["no-index"]:
            arguments |= dict.fromkeys(INDEX_VARIABLES["no-index"], flag)
        return arguments | _installer_variables(values)

    def withheld(self, instead: Mapping[str, str]) -> tuple[str, ...]:
        """Sources and proxies that `build_args` leaves out, with secrets redacted."""
        effective = self.in_effect()
        proxies = [effective[name] for name in PROXY_VARIABLES if has_secret(effective.get(name, ""))]
        unknown = [source for source in self.hidden_from_images if source not in instead]
        return tuple(dict.fromkeys(map(redacted, (*unknown, *proxies))))

    def _chosen(self, files: Mapping[str, str] | None = None) -> dict[str, list[str]]:
        """Sources of each kind in order; `files` are settings of pip's files, overridden by variables."""
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
            # uv allows NAME=URL for an index, and separates wheel folders by commas.
            found[kind] = [re.sub(r"^[\w-]+=(?=\w+://)", "", source) for source in re.split(r"[\s,]+", given) if source]
        return found

    def _index_variables(self) -> dict[str, str]:
        """Variables of uv and pip for the workspace's sources."""
        settings = self.settings
        if not (settings.index_url or settings.extra_index_urls or settings.find_links):
            return {}
        values = _installer_variables(self._chosen(pip_settings(self.variables)))
        if settings.index_url:
            # Configuration files must not add an index.
            values |= {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", WORKSPACE_INDEX: "1"}
        return values

    def _is_kept_from_images(self, source: str) -> bool:
        needs_certificates = bool(self.settings.ca_bundle) and source.startswith("https:")
        return local_folder(source) is not None or has_secret(source) or needs_certificates


def _installer_variables(chosen: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Variables of pip and uv for these sources."""
    values: dict[str, str] = {}
    if chosen["index-url"]:
        values |= dict.fromkeys(("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), chosen["index-url"][0])
    if chosen["extra-index-url"]:
        values |= dict.fromkeys(("PIP_EXTRA_INDEX_URL", "UV_INDEX"), " ".join(chosen["extra-index-url"]))
        values["UV_INDEX_STRATEGY"] = ALL_INDEXES
    if chosen["find-links"]:
        listed = chosen["find-links"]
        values |= {"PIP_FIND_LINKS": " ".join(listed), "UV_FIND_LINKS": ",".join(listed)}
    return values


def local_folder(source: str) -> Path | None:
    """The local folder of a path or file: URL; None for other addresses."""
    if source.startswith("file:"):
        source = unquote(urlsplit(source).path)
    return Path(source) if os.path.isabs(source) else None


def _joined(ours: Sequence[str], theirs: str, by: str = " ") -> str:
    return by.join(dict.fromkeys([*ours, *re.split(r"[\s,]+", theirs.strip())])).rstrip(by)


def _text(source: str) -> str:
    try:
        return Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


WriteFiles = Callable[[Sequence[FileEntry], Path], None]
"""Callback(entries, folder): write files, such as those of a build context, below the folder."""


@dataclass(frozen=True)
class BuildSettings:
    """What a workspace gives one build. Kept in memory; none of it is stored in the environment."""

    settings: PackageSettings = field(default_factory=PackageSettings)
    registries: Mapping[str, RegistryCredentials] = field(default_factory=dict)
    """Credentials by the address of the registry."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """URLs with passwords, by the marked URLs that stand for them in the spec."""
