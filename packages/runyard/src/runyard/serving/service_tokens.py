"""Access tokens of web services: signed by the service, checked by the gateway, with the web service's own secret."""

import hmac


def sign_token(secret: str, service_id: str, expiry: int) -> str:
    """`expiry` in seconds since 1970."""
    return f"{expiry}.{_signature(secret, service_id, str(expiry))}"


def is_token_good(token: str, secret: str, service_id: str, now: float) -> bool:
    """Whether it was signed for that web service and has not expired. False for any other text."""
    expiry, _, signature = token.partition(".")
    expected = _signature(secret, service_id, expiry).encode()
    is_signed = hmac.compare_digest(signature.encode("utf-8", "surrogatepass"), expected)
    return is_signed and now < int(expiry)


def _signature(secret: str, service_id: str, expiry: str) -> str:
    text = f"{service_id}.{expiry}".encode("utf-8", "surrogatepass")
    return hmac.digest(secret.encode(), text, "sha256").hex()
