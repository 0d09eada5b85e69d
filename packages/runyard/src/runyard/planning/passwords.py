"""What of an address is a secret, wherever one is shown, kept or compared: user and password up to the last @ before
the path, with a password or without; the values of parameters such as `token`; conda's /t/TOKEN."""

import re
from collections.abc import Iterable, Iterator

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
