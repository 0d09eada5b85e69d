from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import IO

PAGE = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """Response to a request for packages. The receiver closes `content`."""

    status: int
    content: IO[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


def page(text: str, status: int = 200) -> Answer:
    content = text.encode("utf-8", "surrogateescape")
    return Answer(status, BytesIO(content), {"Content-Type": PAGE, "Content-Length": str(len(content))})
