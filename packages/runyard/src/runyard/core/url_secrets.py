"""Secrets in URLs, to be redacted before a text is shown or stored.

A secret is the user and password in front of the last @ before the path, the value of a query parameter such as
`token`, and the token of a conda URL (/t/TOKEN).
"""

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
"""Characters that may follow a URL in a line or a command, and do not belong to it."""
# GitHub and Gemfury take the token as the user name.
_NO_PASSWORDS = ("", "x-oauth-basic")


def redacted(text: str) -> str:
    """The text with every secret of its URLs replaced by ****."""
    if "://" not in text:
        return text
    text = _LOGIN.sub(lambda found: f"{found['scheme']}://{_shown_login(found)}@", text)
    text = _PARAMETER.sub(rf"\g<name>{STARS}", text)
    return _IN_PATH.sub(rf"\g<before>{STARS}", text)


def has_secret(text: str) -> bool:
    return redacted(text) != text


def without_logins(text: str) -> str:
    """The text with users and passwords removed from its URLs, and other secrets replaced by ****."""
    return redacted(_LOGIN.sub(lambda found: f"{found['scheme']}://", text))


def unredacted(text: str, known: Iterable[str]) -> str:
    """Undo `redacted` for the URLs that occur in `known`."""
    for address in _with_secrets(known):
        text = text.replace(redacted(address), address)
    return text


def urls_with_secrets(value: Any) -> Iterator[str]:
    """The URLs that contain a secret, in all strings of a JSON value."""
    if isinstance(value, str):
        found = (one[0].rstrip(_BEHIND) for one in _ADDRESS.finditer(value))
        yield from filter(has_secret, found)
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from urls_with_secrets(one)


def replace_urls(value: Any, others: Mapping[str, str]) -> Any:
    """Replace URLs in all strings of a JSON value. Only whole URLs match, not prefixes of longer ones."""
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
        return user  # authenticated by a key; the user name is not secret
    return f"{user}:{STARS}" if user and password not in _NO_PASSWORDS else STARS


def _with_secrets(lines: Iterable[str]) -> Iterator[str]:
    """Whole URLs first, then their hosts: tools append to a URL or cut off its end."""
    found = [address for line in lines for address in _ADDRESS.finditer(line)]
    for address in (*(one[0] for one in found), *(one["host"] for one in found)):
        if has_secret(address):
            yield address
