class CrossOrigin:
    """CORS: pages of other origins may read answers only when AML_CORS_ORIGINS of the service names them."""

    def __init__(self, origins: str) -> None:
        """`origins` is separated by commas; '*' allows any."""
        self._origins = frozenset(filter(None, (origin.strip().lower() for origin in origins.split(","))))

    def fields(self, origin: bytes | None, *, is_preflight: bool) -> list[tuple[str, str]]:
        """Headers to add to an answer; empty for an origin that is not allowed."""
        if not self._origins or origin is None:
            return []
        text = origin.decode("latin-1")
        if "*" not in self._origins and text.lower() not in self._origins:
            return []
        named = [("Access-Control-Allow-Origin", text), ("Vary", "Origin")]
        if not is_preflight:
            return named
        return [
            *named,
            ("Access-Control-Allow-Methods", "GET, OPTIONS, POST"),
            ("Access-Control-Allow-Headers", "Authorization, Content-Type, x-ms-client-request-id, x-ms-request-id"),
            ("Access-Control-Max-Age", "600"),
        ]
