"""`runyard services test`: send one request, made from the schema if need be, and print the response."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from runyard.cli.connection import WorkspaceOption
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, print_json
from runyard.cli.web_services.client import NameArgument, Record, WebService, open_web_service

if TYPE_CHECKING:
    from http.client import HTTPConnection


TIMEOUT_SECONDS = 300


class ServiceResponse(NamedTuple):
    status: int
    milliseconds: float
    request_id: str
    body: bytes


def send_test_request(
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
        raise CommandError("--data and --file exclude one another.", exit_code=Exit.USAGE)
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


def post(uri: str, body: bytes, credential: str, certificate: str = "") -> ServiceResponse:
    """Send one POST. The connection is opened first, so that the time is that of the response alone. Trusts the
    certificate that the web service was deployed with. Raises CommandError."""
    from http.client import HTTPException
    from urllib.parse import urlsplit

    from runyard_sdk.trust import connection_to

    parts = urlsplit(uri)
    connection = _connect_trusting(uri, certificate) if certificate else connection_to(uri, TIMEOUT_SECONDS)
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
        raise CommandError(f"{uri} does not answer: {error}.", hint="See `runyard services show NAME`.") from None
    finally:
        connection.close()
    return ServiceResponse(answer.status, took, answer.getheader("x-ms-request-id") or "", content)


def _connect_trusting(uri: str, certificate: str) -> "HTTPConnection":
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
        raise CommandError(
            f"{record['name']} is {record['state']} and does not answer yet.",
            hint=f"See `runyard services show {record['name']}`.",
        )
    return str(record["scoring_uri"])


def _sample(record: Record) -> bytes:
    sample = sample_from(record.get("schema") or {})
    if sample is None:
        raise CommandError(
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


BY_TYPE = {"integer": 0, "number": 0.0, "boolean": False, "string": "", "null": None}
MOST_ITEMS = 1000


def sample_from(schema: Mapping[str, Any]) -> Any:
    """Sample of the schema, else a value that fits it; None without a schema."""
    for known in ("sample_input", "sample"):
        if schema.get(known) is not None:
            return schema[known]
    described = schema.get("input")
    return sample_value(described) if isinstance(described, Mapping) and described else None


def sample_value(schema: Mapping[str, Any]) -> Any:
    """A minimal value that a JSON schema accepts."""
    for given in ("example", "default", "const"):
        if given in schema:
            return schema[given]
    if schema.get("enum"):
        return schema["enum"][0]
    choices = schema.get("oneOf") or schema.get("anyOf")
    if choices:
        return sample_value(choices[0])
    if "properties" in schema or schema.get("type") == "object":
        return _object(schema)
    if schema.get("type") == "array":
        count = min(max(int(schema.get("minItems", 1)), 1), MOST_ITEMS)
        return [sample_value(schema.get("items") or {}) for _ in range(count)]
    return BY_TYPE.get(str(schema.get("type")))


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    wanted = schema.get("required") or list(properties)
    return {name: sample_value(properties.get(name) or {}) for name in wanted}
