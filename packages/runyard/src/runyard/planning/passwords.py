"""What of an address is a secret, wherever one is shown, kept or compared: user and password up to the last @ before
the path, with a password or without; the values of parameters such as `token`; conda's /t/TOKEN."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

STARS = "****"
_LOGIN = re.compile(r'(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]{0,30}+)://(?P<login>[^\s/"<>]+)@')
_PARAMETER = re.compile(
    r"(?P<name>[?&](?:"
    r"(?=[\w.-]*?(?:token|secret|passw|api_?-?key|access_?-?key|signature|credential|auth))[\w.-]++|pwd|key|sig)=)"
    r"(?P<value>[^\s&#\"<>]++)",
    re.IGNORECASE,
)
_IN_PATH = re.compile(r"(?P<before>://[^\s/]++/t/)(?P<token>[^\s/]++)(?=/)")
_ADDRESS = re.compile(r'(?P<host>[a-zA-Z][a-zA-Z0-9+.-]{0,30}+://[^\s/"<>]++)[^\s"<>]*+')
_BEHIND = ";,'`)]}"
"""What a line or a command may have behind an address."""
# The user is the secret then: GitHub's and Gemfury's way.
_NO_PASSWORDS = ("", "x-oauth-basic")


def hidden(text: str) -> str:
    """The text with **** for every secret of the addresses in it."""
    if "://" not in text:
        return text
    text = _LOGIN.sub(lambda found: f"{found['scheme']}://{_shown_login(found)}@", text)
    text = _PARAMETER.sub(rf"\g<name>{STARS}", text)
    return _IN_PATH.sub(rf"\g<before>{STARS}", text)


def has_secret(text: str) -> bool:
    return hidden(text) != text


def without_logins(text: str) -> str:
    """The text without the users and passwords of the addresses in it, and with **** for their other secrets."""
    return hidden(_LOGIN.sub(lambda found: f"{found['scheme']}://", text))


def shown(text: str, known: Iterable[str]) -> str:
    """The text with the secrets back that are hidden in it, of the addresses in `known`."""
    for address in _with_secrets(known):
        text = text.replace(hidden(address), address)
    return text


def private_addresses(value: Any) -> Iterator[str]:
    """The addresses with a secret in the texts of a JSON value."""
    if isinstance(value, str):
        found = (one[0].rstrip(_BEHIND) for one in _ADDRESS.finditer(value))
        yield from filter(has_secret, found)
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from private_addresses(one)


def replace_addresses(value: Any, others: Mapping[str, str]) -> Any:
    """The JSON value with others for those addresses in its texts that are in `others`. An address counts as a whole:
    one that only begins as another does is left as it is."""
    return _mapped(value, lambda text: _ADDRESS.sub(lambda found: _other(found[0], others), text))


def _other(found: str, others: Mapping[str, str]) -> str:
    address = found.rstrip(_BEHIND)
    return others.get(address, address) + found[len(address) :]


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _mapped(one, change) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_mapped(one, change) for one in value)
    return value


def _shown_login(found: re.Match[str]) -> str:
    user, colon, password = found["login"].partition(":")
    if not colon and found["scheme"].endswith("ssh"):
        return user  # who has a key beside
    return f"{user}:{STARS}" if user and password not in _NO_PASSWORDS else STARS


def _with_secrets(lines: Iterable[str]) -> Iterator[str]:
    """Whole first: tools write more behind an address, or leave something of its end out."""
    found = [address for line in lines for address in _ADDRESS.finditer(line)]
    for address in (*(one[0] for one in found), *(one["host"] for one in found)):
        if has_secret(address):
            yield address
