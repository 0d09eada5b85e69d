"""Why a run failed, as short as it can be said."""

MOST_SAID = 500


def cause_text(message: object) -> str:
    """The first line of an error's message; where that announces what follows, what follows too, on one line."""
    lines = [line.strip() for line in str(message or "").strip().splitlines() if line.strip()]
    if not lines:
        return ""
    return (" ".join(lines) if lines[0].endswith(":") else lines[0])[:MOST_SAID]
