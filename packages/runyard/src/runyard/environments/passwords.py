import re
from collections.abc import Iterable

SECRET = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)(?P<user>[^\s/@:]*):(?P<password>[^\s/@]+)@")

ADDRESS = re.compile(SECRET.pattern + r"[^\s/]*")


def hidden(line: str) -> str:
    """The line with **** for the password of every address in it."""
    return SECRET.sub(r"\g<scheme>\g<user>:****@", line) if "://" in line else line


def shown(text: str, known: Iterable[str]) -> str:
    """The text with the passwords back that are hidden in it, of the addresses in `known`."""
    for address in (found for line in known for found in ADDRESS.finditer(line)):
        text = text.replace(hidden(address.group()), address.group())
    return text
