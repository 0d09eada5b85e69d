"""HTML that cannot be broken out of: every text is escaped unless this module made it."""

import html


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """`class_` stands for class, `_` in a name for '-'; an attribute given None is left out."""
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
