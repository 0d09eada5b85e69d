import base64
import hashlib
import hmac
import os
import secrets
import shutil
import ssl
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

from tests.servers import installing
from tests.servers.certificates import Certificate
from tests.servers.process import ServerProcess

ACCOUNT = "runyardtests"


class AzuriteServer:
    """A real Azurite with one account. With a certificate it speaks https, and takes
    bearer tokens."""

    def __init__(self, folder: Path, certificate: Certificate | None = None) -> None:
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()
        self._folder, self._certificate = folder, certificate
        self._server = ServerProcess(folder)

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def endpoint(self) -> str:
        scheme = "https" if self._certificate else "http"
        return f"{scheme}://127.0.0.1:{self._server.port}/{ACCOUNT}"

    def start(self) -> None:
        node = shutil.which("node")
        if node is None:
            raise RuntimeError("node, which runs Azurite, is not here. `make ci-setup` brings it.")
        secure = []
        if self._certificate:
            files = ["--cert", str(self._certificate.chain), "--key", str(self._certificate.key)]
            secure = [*files, "--oauth", "basic"]
        place = ["--blobHost", "127.0.0.1", "--blobPort", str(self._server.port), "--location", str(self._folder)]
        quiet = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        self._server.start(
            [node, str(installing.azurite()), *place, *quiet, *secure],
            {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{self.key}"},
        )

    def kill(self) -> None:
        self._server.kill()

    def settle(self) -> None:
        """Have it save all it was given, so that it outlives a kill. It saves its index when it is asked to end, and
        now and then."""
        self._server.wait_for_handler()
        self._server.stop()
        self.start()

    def make_container(self, name: str) -> None:
        self._put(f"{name}?restype=container&{self.account_sas()}", {})

    def put_blob(self, container: str, quoted_name: str) -> None:
        """One of a name that clients would not let through."""
        self._put(f"{container}/{quoted_name}?{self.account_sas()}", {"x-ms-blob-type": "BlockBlob"})

    def _put(self, target: str, headers: dict[str, str]) -> None:
        trust = ssl.create_default_context(cafile=str(self._certificate.authority)) if self._certificate else None
        request = urllib.request.Request(f"{self.endpoint}/{target}", data=b"", headers=headers, method="PUT")
        with urllib.request.urlopen(request, context=trust, timeout=30):
            pass

    def account_sas(self, permissions: str = "rwdlac", expiry: str = "2100-01-01T00:00:00Z") -> str:
        """A shared access signature for all of the account's blobs."""
        version, services, kinds, protocols = "2021-08-06", "b", "sco", "https,http"
        signed = [ACCOUNT, permissions, services, kinds, "", expiry, "", protocols, version, "", ""]
        digest = hmac.digest(base64.b64decode(self.key), "\n".join(signed).encode(), hashlib.sha256)
        fields = {"sv": version, "ss": services, "srt": kinds, "sp": permissions, "se": expiry, "spr": protocols}
        return urlencode({**fields, "sig": base64.b64encode(digest).decode()})
