"""`runyard environments build`: build an environment before a run needs it."""

import sys
from codecs import getincrementaldecoder
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from runyard.cli.connection import Service, WorkspaceOption, connect, open_workspace, quoted
from runyard.cli.display import seconds_in_words
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, print_fields, print_json

ENDED = ("Succeeded", "Failed")
POLL_SECONDS = 1


def build(
    environment: Annotated[
        str | None, typer.Argument(metavar="[NAME[:VERSION]]", help="A registered or curated environment.")
    ] = None,
    conda_file: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A conda environment file.")
    ] = None,
    requirements: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="pip's requirements.")
    ] = None,
    image: Annotated[str | None, typer.Option(help="The packages go into this image.")] = None,
    dockerfile: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Or into the image it makes.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Build also what is in the cache.")] = False,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Build an environment now; runs then find it. Prints the build log; exit code 1, with the cause, where it fails.

    \b
    Examples:
      runyard environments build training:3
      runyard environments build AzureML-TensorFlow-1.13-CPU
      runyard environments build --conda-file conda.yml
      runyard environments build --image debian:12 --requirements requirements.txt
    """
    choice = _BuildRequest(environment, conda_file, requirements, image, dockerfile)
    body = {**choice.to_wire(workspace), "force": force}
    service = connect()
    builds = f"/workspaces/{quoted(service.workspace(workspace))}/builds"
    began = monotonic()
    record = _follow(service, builds, service.post(builds, body), quiet=output is Format.JSON)
    if output is Format.JSON:
        print_json(record)
    else:
        _print_end(record, monotonic() - began)
    if record["state"] == "Failed":
        raise typer.Exit(Exit.NO)


@dataclass(frozen=True)
class _BuildRequest:
    """What to build, from the command line."""

    name: str | None
    conda_file: Path | None
    requirements: Path | None
    image: str | None
    dockerfile: Path | None

    def to_wire(self, workspace: str | None) -> dict[str, Any]:
        """Request body, made and checked by the SDK. Raises CommandError."""
        from runyard_sdk.submitter import submitter_facts

        self._check()
        with open_workspace(workspace) as opened:
            definition = self._environment(opened)._to_object()
        context = (definition["docker"].get("buildContext") or {}).get("files") or []
        return {"environment": definition, "files": context, "submitter": submitter_facts()}

    def _environment(self, workspace: Any) -> Any:
        from azureml.core import Environment

        conda, pip = (str(file) if file else None for file in (self.conda_file, self.requirements))
        if self.name:
            named, _, version = self.name.partition(":")
            return Environment.get(workspace, named, version or None)
        if self.image:
            return Environment.from_docker_image("built", self.image, None, conda, pip)
        if self.dockerfile:
            return Environment.from_dockerfile("built", str(self.dockerfile), conda, pip)
        if conda:
            return Environment.from_conda_specification("built", conda)
        return Environment.from_pip_requirements("built", pip)

    def _check(self) -> None:
        packages = (self.conda_file, self.requirements)
        images = (self.image, self.dockerfile)
        if self.name and any((*packages, *images)):
            raise CommandError("A NAME stands alone: the others say what to build in its place.", exit_code=Exit.USAGE)
        if all(packages):
            raise CommandError("--conda-file and --requirements exclude one another.", exit_code=Exit.USAGE)
        if all(images):
            raise CommandError("--image and --dockerfile exclude one another.", exit_code=Exit.USAGE)
        if not any((self.name, *packages, *images)):
            hint = "Give a NAME, --conda-file, --requirements, --image or --dockerfile."
            raise CommandError("Nothing says what to build.", hint=hint, exit_code=Exit.USAGE)


def _follow(service: Service, builds: str, record: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """Wait until the build has ended and return its record. Prints its log to stderr unless `quiet`."""
    address, offset = f"{builds}/{quoted(record['id'])}", 0
    words = getincrementaldecoder("utf-8")("replace")
    while True:
        ended = record["state"] in ENDED
        if not quiet:
            piece = service.read(f"{address}/log", offset=offset)
            offset += len(piece)
            print(words.decode(piece, final=ended), end="", file=sys.stderr, flush=True)
        if ended:
            return record
        record = service.get(f"{address}/wait", version=record["version"], timeout=POLL_SECONDS)


def _print_end(record: dict[str, Any], seconds: float) -> None:
    if record["state"] == "Failed":
        error = record["error"] or {}
        print(": ".join(filter(None, ["Error", error.get("cause"), error.get("problem")])), file=sys.stderr)
        print(error.get("hint") or "", end="\n" if error.get("hint") else "", file=sys.stderr)
        return
    print(f"Built in {seconds_in_words(seconds)}.", file=sys.stderr)
    image = record.get("image") or {}
    print_fields({"environment": record["environment_key"], "image": image.get("name") or ""})
