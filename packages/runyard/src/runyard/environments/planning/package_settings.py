"""Package settings of a workspace: checks of changes, display without passwords, JSON."""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any
from urllib.parse import urlsplit

from runyard.core.definitions.fields import JsonObject
from runyard.core.errors import InvalidArgument, Json
from runyard.core.record_json import from_json, to_json
from runyard.core.records.environments import PackageSettings, PackageSettingsChange
from runyard.core.url_secrets import redacted

MOST_ENTRIES, LONGEST_ADDRESS, LARGEST_BUNDLE = 100, 4096, 1024 * 1024
_HOST = re.compile(r"[A-Za-z0-9*]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?(:[0-9]{1,5})?")
_CHANNEL = re.compile(r"[A-Za-z0-9][\w./-]{0,99}")


def changed_settings(settings: PackageSettings, changes: PackageSettingsChange) -> PackageSettings:
    """Apply changes. An address with a redacted password, as it was shown, keeps its password. Raises
    InvalidArgument."""
    changed: dict[str, Any] = {name: getattr(PackageSettings(), name) for name in changes.reset}
    for setting in fields(PackageSettings):
        name, value = setting.name, getattr(changes, setting.name)
        if value is not None:
            checked = _CHECKS[name](name, value) if name in _CHECKS else value
            changed[name] = _with_passwords(checked, getattr(shown_settings(settings), name), getattr(settings, name))
    return replace(settings, **changed)


def shown_settings(settings: PackageSettings) -> PackageSettings:
    """The settings with passwords redacted."""
    return replace(
        settings,
        index_url=redacted(settings.index_url),
        extra_index_urls=tuple(map(redacted, settings.extra_index_urls)),
        find_links=tuple(map(redacted, settings.find_links)),
        conda_channels={name: redacted(address) for name, address in settings.conda_channels.items()},
    )


def settings_to_json(settings: PackageSettings) -> Json:
    return to_json(settings)


def settings_from_json(body: JsonObject) -> PackageSettings:
    """Unknown fields are ignored."""
    return from_json(PackageSettings, body, "Package settings")


def _with_passwords(given: Any, shown: Any, kept: Any) -> Any:
    """Replace redacted values by the stored ones."""
    if isinstance(given, tuple):
        known = dict(zip(shown, kept, strict=True))
        given = tuple(known.get(one, one) for one in given)
    elif isinstance(given, dict):
        given = {name: kept[name] if shown.get(name) == one else one for name, one in given.items()}
    elif given == shown:
        given = kept
    return given


def _address(name: str, value: str) -> str:
    text = _text(name, value)
    try:
        parts = urlsplit(text)
        is_right = parts.scheme in ("http", "https", "file") and bool(parts.hostname or parts.scheme == "file")
        is_right = is_right and (parts.port is None or parts.port > 0)
    except ValueError:
        is_right = False
    if text and not is_right:
        raise _wrong(name, redacted(text), "an address such as https://packages.example/simple")
    return text


def _folder_or_address(name: str, value: str) -> str:
    text = _text(name, value)
    return text if text.startswith("/") else _address(name, text)


def _text(name: str, value: str) -> str:
    if len(value) > LONGEST_ADDRESS or not value.isprintable() or re.search(r"[\s,]", value):
        raise _wrong(name, value, "an address without spaces and commas")
    return value


def _list_of(check: Callable[[str, str], str]) -> Callable[[str, tuple[str, ...]], tuple[str, ...]]:
    def checked(name: str, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(value) > MOST_ENTRIES:
            raise _wrong(name, value, f"a list of at most {MOST_ENTRIES}")
        return tuple(filter(None, (check(name, one) for one in value)))

    return checked


def _host(name: str, value: str) -> str:
    if not _HOST.fullmatch(value):
        raise _wrong(name, value, "a host such as packages.example")
    return value


def _bundle(name: str, value: str) -> str:
    is_text = len(value) <= LARGEST_BUNDLE and "\0" not in value
    if not is_text or (value and "-----BEGIN CERTIFICATE-----" not in value):
        raise _wrong(name, value, "the text of certificates in PEM form, not a path")
    if "PRIVATE KEY-----" in value:
        raise InvalidArgument(f"{name} holds a private key.", hint="Give certificates alone.")
    return value


def _channels(name: str, value: Mapping[str, str]) -> dict[str, str]:
    if len(value) > MOST_ENTRIES:
        raise _wrong(name, value, "an object: the address to take for a channel's name")
    for channel in value:
        if not _CHANNEL.fullmatch(channel):
            raise _wrong(name, channel, "a channel's name such as conda-forge")
    return {channel: _folder_or_address(name, address) for channel, address in value.items()}


def _wrong(name: str, value: Any, expected: str) -> InvalidArgument:
    return InvalidArgument(f"{name} is {ascii(value)[:80]}.", hint=f"Give {expected}.")


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "index_url": _address,
    "extra_index_urls": _list_of(_address),
    "find_links": _list_of(_folder_or_address),
    "trusted_hosts": _list_of(_host),
    "ca_bundle": _bundle,
    "conda_channels": _channels,
}
"""Checks of values beyond their types."""
