"""`runyard models profile`: measure latency, CPU and memory of a model."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from runyard.cli.connection import Service, WorkspaceOption, connect, quoted
from runyard.cli.display import seconds_in_words, size_in_words
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, print_fields, print_heading, print_json, print_table
from runyard.cli.web_services.deploy import inference_of, print_failure, submitter, versioned

LONGEST_WAIT_SECONDS = 30
LATENCIES = {
    "average": "average",
    "p50": "p50",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p99_9": "p99.9",
    "max": "max",
}


def profile(
    model: Annotated[str, typer.Argument(metavar="MODEL[:VERSION]", help="The newest version if unsaid.")],
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", exists=True, dir_okay=False, help="A request body a line.")
    ],
    name: Annotated[str | None, typer.Option(help="Of the profile; else made from the model's.")] = None,
    entry_script: Annotated[str | None, typer.Option(metavar="FILE", help="As for `runyard deploy`.")] = None,
    source: Annotated[Path | None, typer.Option(metavar="FOLDER", exists=True, file_okay=False)] = None,
    conda_file: Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False)] = None,
    environment: Annotated[str | None, typer.Option(metavar="NAME[:VERSION]")] = None,
    cpu: Annotated[float | None, typer.Option(min=0.1, max=64, help="Cores for its libraries.")] = None,
    memory_gb: Annotated[float | None, typer.Option(min=0.1, help="A worker that holds more is replaced.")] = None,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Measure latency, throughput and memory of a model over sample requests.

    The model is deployed for as long as that takes, where nobody else asks it. Exit code 1 where it cannot be deployed
    or a request fails.

    Example: runyard models profile digits --file requests.jsonl
    """
    service = connect()
    root = f"/workspaces/{quoted(service.workspace(workspace))}"
    chosen = versioned(service, root, model)
    body = {
        "name": name or f"{chosen.replace(':', '-')}-profile",
        "models": [chosen],
        "inference": inference_of(workspace, entry_script, source, conda_file, environment) if entry_script else None,
        "rows": _rows(file),
        "cpu": cpu,
        "memory_in_gb": memory_gb,
        "submitter": submitter(),
    }
    record = _ended(service, root, service.post(f"{root}/profiles", body))
    if output is Format.JSON:
        print_json(record)
    elif record["results"]:
        _print_results(record)
    else:
        print_failure(record)
    if not record["results"] or record["results"]["failed"]:
        raise typer.Exit(Exit.NO)


def _rows(file: Path) -> list[str]:
    rows = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    for number, row in enumerate(rows, 1):
        try:
            json.loads(row)
        except ValueError as problem:
            raise CommandError(f"Line {number} of {file} is not JSON: {problem}.", exit_code=Exit.USAGE) from None
    if not rows:
        raise CommandError(f"{file} holds no request.", hint="Write one JSON body a line.", exit_code=Exit.USAGE)
    return rows


def _ended(service: Service, root: str, record: dict[str, Any]) -> dict[str, Any]:
    while record["state"] == "Running":
        address = f"{root}/profiles/{quoted(record['name'])}/wait"
        record = service.get(address, version=record["version"], timeout=LONGEST_WAIT_SECONDS)
    return record


def _print_results(record: dict[str, Any]) -> None:
    found = record["results"]
    asked = {"requests": str(found["requests"]), "succeeded": f"{found['success_rate']:.1f} %"}
    speed = {"took": seconds_in_words(found["seconds"]), "a second": f"{found['queries_per_second']:.1f}"}
    used = {"peak memory": size_in_words(found["peak_memory_bytes"]), "cores in use": f"{found['average_cpu']:.2f}"}
    wise = {
        "recommended cpu": f"{found['recommended_cpu']:g}",
        "recommended memory": f"{found['recommended_memory_in_gb']:g} GB",
    }
    print_fields({"profile": record["name"], "model": " ".join(record["models"]), **asked, **speed, **used, **wise})
    print_heading("latency")
    latency = found["latency_ms"]
    rows = [[label, f"{latency[name]:.2f}"] for name, label in LATENCIES.items() if name in latency]
    print_table(["of requests", "milliseconds"], rows, nothing="")
