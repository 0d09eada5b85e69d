import json
import os
import re
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

from tests.servers import installing
from tests.servers.process import ServerProcess

BUCKET = "runyardtests"
_UNSIGNED_REQUESTS = 4
"""Making the bucket and the user; from then on moto checks signatures."""
_SETTING_UP = {"Authorization": "AWS4-HMAC-SHA256 Credential=setup/20200101/us-east-1/iam/aws4_request"}
_EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


class S3Server:
    """A real moto server with one bucket. What it holds is in memory: a kill empties it."""

    def __init__(self, folder: Path, *, checks_signatures: bool = True) -> None:
        self._server = ServerProcess(folder)
        self._checks_signatures = checks_signatures
        self.key_id, self.key = "anything", "goes"

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    def start(self) -> None:
        unsigned = {"INITIAL_NO_AUTH_ACTION_COUNT": str(_UNSIGNED_REQUESTS)} if self._checks_signatures else {}
        self._server.start(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._server.port)],
            {**os.environ, "PYTHONPATH": str(installing.moto()), **unsigned},
        )
        with urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{BUCKET}", method="PUT"), timeout=30):
            pass
        if self._checks_signatures:
            self._make_user()

    def kill(self) -> None:
        self._server.kill()

    def _make_user(self) -> None:
        self._ask_iam("CreateUser")
        answer = self._ask_iam("CreateAccessKey")
        self.key_id, self.key = (_element(answer, name) for name in ("AccessKeyId", "SecretAccessKey"))
        self._ask_iam("PutUserPolicy", PolicyName="everything", PolicyDocument=json.dumps(_EVERYTHING))

    def _ask_iam(self, action: str, **fields: str) -> str:
        form = urlencode({"Action": action, "Version": "2010-05-08", "UserName": "tests", **fields})
        request = urllib.request.Request(f"{self.endpoint}/", data=form.encode(), headers=_SETTING_UP)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.read(), "utf-8")


def _element(text: str, name: str) -> str:
    found = re.search(f"<{name}>([^<]+)<", text)
    if not found:
        raise RuntimeError(f"The S3 server gave no {name}.")
    return found[1]
