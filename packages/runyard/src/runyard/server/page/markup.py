"""HTML builder that escapes every text, except markup made here."""

import html


class Markup(str):
    """Text that is safe HTML."""

    __slots__ = ()


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """Make an element. `class_` means class, `_` in a name means '-', and None leaves the attribute out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in ("meta", "link", "br"):
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(*inside)}</{name}>")


def joined(*parts: object) -> Markup:
    return Markup("".join(part if isinstance(part, Markup) else html.escape(str(part)) for part in parts))
