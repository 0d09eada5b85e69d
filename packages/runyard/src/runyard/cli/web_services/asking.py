"""`runyard services test`: send one request, made from the schema if need be, and print the response."""

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from runyard.cli.connection import WorkspaceOption
from runyard.cli.exits import Exit, Refusal
from runyard.cli.output import Format, FormatOption, print_json
from runyard.cli.web_services.sample_input import sample_from
from runyard.cli.web_services.web_service import NameArgument, Record, WebService, open_web_service

if TYPE_CHECKING:
    from http.client import HTTPConnection

TIMEOUT_SECONDS = 300


class Asked(NamedTuple):
    status: int
    milliseconds: float
    request_id: str
    body: bytes


def ask_once(
    name: NameArgument,
    data: Annotated[str | None, typer.Option("--data", "-d", metavar="JSON", help="The body to send.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", exists=True, dir_okay=False, help="Send this file.")
    ] = None,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Ask a web service once; print its answer and the milliseconds. The key, where one is asked for, is added.

    Without --data and --file the sample of the model's schema is sent, or a value that fits the schema. Exit code 1
    where the answer is an error.

    \b
    Examples:
      runyard services test digits
      runyard services test digits --data '{"data": [[0, 1, 2, 3]]}'
      runyard services test digits --file request.json
    """
    if data is not None and file is not None:
        raise Refusal("--data and --file exclude one another.", exit_code=Exit.USAGE)
    service = open_web_service(name, workspace)
    record = service.record()
    body = file.read_bytes() if file else data.encode() if data is not None else _sample(record)
    asked = post(_uri(record), body, _credential(service, record), record["config"].get("ssl_cert_pem") or "")
    if output is Format.JSON:
        print_json({**asked._asdict(), "body": _decoded(asked.body)})
    else:
        print(asked.body.decode("utf-8", "replace"))
        print(f"{asked.status} after {asked.milliseconds:.1f} ms, request {asked.request_id}", file=sys.stderr)
    if asked.status >= 400:
        raise typer.Exit(Exit.NO)


def post(uri: str, body: bytes, credential: str, certificate: str = "") -> Asked:
    """Send one POST. The connection is opened first, so that the time is that of the response alone. Trusts the
    certificate that the web service was deployed with. Raises Refusal."""
    from http.client import HTTPException
    from urllib.parse import urlsplit

    from runyard_sdk.trust import connection_to

    parts = urlsplit(uri)
    connection = _trusting(uri, certificate) if certificate else connection_to(uri, TIMEOUT_SECONDS)
    headers = {"Content-Type": "application/json"}
    if credential:
        headers["Authorization"] = f"Bearer {credential}"
    try:
        connection.connect()
        began = perf_counter()
        connection.request("POST", parts.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        took = (perf_counter() - began) * 1000
    except (OSError, HTTPException) as error:
        raise Refusal(f"{uri} does not answer: {error}.", hint="See `runyard services show NAME`.") from None
    finally:
        connection.close()
    return Asked(answer.status, took, answer.getheader("x-ms-request-id") or "", content)


def _trusting(uri: str, certificate: str) -> "HTTPConnection":
    import ssl
    from http.client import HTTPSConnection
    from urllib.parse import urlsplit

    trust = ssl.create_default_context(cadata=certificate)
    trust.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trust.check_hostname = False  # made for ssl_cname, but called by the name of this machine
    address = urlsplit(uri)
    return HTTPSConnection(address.hostname or "", address.port, timeout=TIMEOUT_SECONDS, context=trust)


def _uri(record: Record) -> str:
    if not record["scoring_uri"]:
        raise Refusal(
            f"{record['name']} is {record['state']} and does not answer yet.",
            hint=f"See `runyard services show {record['name']}`.",
        )
    return str(record["scoring_uri"])


def _sample(record: Record) -> bytes:
    sample = sample_from(record.get("schema") or {})
    if sample is None:
        raise Refusal(
            f"Nothing is known of what {record['name']} takes, so there is no sample to send.",
            hint="Give --data JSON or --file FILE; a scoring script tells with @input_schema.",
            exit_code=Exit.USAGE,
        )
    text = json.dumps(sample, ensure_ascii=False)
    print(f"sending the sample of its schema: {text}", file=sys.stderr)
    return text.encode()


def _credential(service: WebService, record: Record) -> str:
    if record["token_auth_enabled"]:
        return service.token()
    return str(service.keys()["primary"]) if record["auth_enabled"] else ""


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
