import re

SECRET = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)(?P<user>[^\s/@:]*):(?P<password>[^\s/@]+)@")


def hidden(line: str) -> str:
    """The line with **** for the password of every address in it."""
    return SECRET.sub(r"\g<scheme>\g<user>:****@", line) if "://" in line else line
