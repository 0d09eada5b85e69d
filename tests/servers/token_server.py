import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from tests.servers.certificates import Certificate


class TokenServer:
    """Gives bearer tokens to those who know the secret, as Azure's login service does."""

    def __init__(self, client_secret: str, certificate: Certificate) -> None:
        self.client_secret = client_secret
        self.given = 0
        """How many it gave."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.chain, certificate.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                status, answer = server._answer(form)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        return Handler

    def _answer(self, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        if form.get("client_secret") != [self.client_secret]:
            return 401, {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret."}
        self.given += 1
        return 200, {"access_token": _token(), "token_type": "Bearer", "expires_in": 3600}


def _token() -> str:
    """With the claims that Azurite looks at."""
    now = int(time.time())
    claims = {
        "aud": "https://storage.azure.com",
        "iss": "https://sts.windows.net/00000000-0000-0000-0000-000000000000/",
        "iat": now - 60,
        "nbf": now - 60,
        "exp": now + 3600,
        "ver": "1.0",
    }
    return ".".join([_part({"alg": "RS256", "typ": "JWT"}), _part(claims), "c2lnbmF0dXJl"])


def _part(fields: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")
