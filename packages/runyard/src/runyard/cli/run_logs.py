"""`runyard runs logs`: one log, the log of one rank, or the logs of all ranks together."""

import os
import sys
from typing import Annotated, Any, TextIO

import typer

from runyard.cli.connection import Service, connect, quoted
from runyard.cli.exits import CommandError, Exit, exit_as, run_goes_on
from runyard.cli.output import Format, FormatOption, print_json_line
from runyard.core.records.runs import RunStatus

# JSON field names of each followed event, as on the wire.
_FOLLOWED = {"status": ("status", "message"), "log": ("log", "text", "rank", "role"), "end": ("end",)}


def logs(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `runyard runs list` shows it.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    rank: Annotated[int | None, typer.Option(min=0, help="The log of this rank.")] = None,
    all_ranks: Annotated[bool, typer.Option("--all", help="All ranks, each line behind its rank.")] = False,
    file: Annotated[str | None, typer.Option(help="This log; otherwise the driver's.")] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Print a run's log: of a distributed run that of rank 0, or worker 0.

    With -f the exit code is the run's: 0 completed, 1 failed or canceled. `--all -f` follows all ranks at once; lines
    come whole, in the order in which they are written. As JSON each line is an object of its own: pieces of the log,
    with -f changes of status and the end too.

    \b
    Examples:
      runyard runs logs -f mnist_1700000000_1a2b3c4d
      runyard runs logs mnist_1700000000_1a2b3c4d --rank 1
      runyard runs logs mnist_1700000000_1a2b3c4d --all -f
    """
    if sum((rank is not None, all_ranks, file is not None)) > 1:
        raise CommandError("--rank, --all and --file exclude one another.", exit_code=Exit.USAGE)
    if follow and file is not None:
        raise CommandError(
            "-f follows the driver's log, or ranks.", hint="Leave out --file, or -f.", exit_code=Exit.USAGE
        )
    service = connect()
    by_rank = rank is not None or all_ranks
    if follow:
        _check_rank(service, run, rank)
        followed = service.follow_ranks(run, rank) if by_rank else service.follow(run)
        with run_goes_on(run):
            end = print_followed(followed, output, prefixed=all_ranks)
        exit_as(end)
    elif by_rank:
        _print_ranks(service, run, rank, output)
    else:
        _print_log(service, run, file, output)


def print_followed(followed: Any, output: Format, *, prefixed: bool = False) -> dict[str, Any]:
    """Print the events of a run until it ends; return its last record."""
    end: dict[str, Any] = {}
    lines = _rank_lines()
    for kind, *what in followed:
        if output is Format.JSON:
            print_json_line(dict(zip(_FOLLOWED[kind], what, strict=False)))
        elif kind == "log" and prefixed:
            lines.take(what[2], what[3], what[1])
        elif kind == "log":
            print(what[1], end="", flush=True)
        if kind == "end":
            end = what[0]
    lines.close()
    return end


def _check_rank(service: Service, run: str, rank: int | None) -> None:
    """Raise Refusal for a rank that the run does not have: following it would never end. It may still start."""
    record = service.get(f"/runs/{quoted(run)}")
    if rank is None or record["status"] in (RunStatus.NOT_STARTED, RunStatus.PREPARING, RunStatus.QUEUED):
        return
    known = service.get(f"/runs/{quoted(run)}/ranks")
    is_whole = RunStatus(record["status"]).is_terminal or all(n["state"] != "preparing" for n in known["nodes"])
    if is_whole and known["ranks"]:
        _one_of(run, known["ranks"], rank)


def _one_of(run: str, ranks: list[dict[str, Any]], wanted: int) -> dict[str, Any]:
    found = next((one for one in ranks if one["rank"] == wanted), None)
    if found is None:
        known = ", ".join(str(one["rank"]) for one in ranks)
        raise CommandError(f"Run {run} has no rank {wanted}. It has: {known}.", exit_code=Exit.NOT_FOUND)
    return found


def _print_ranks(service: Service, run: str, rank: int | None, output: Format) -> None:
    ranks = service.get(f"/runs/{quoted(run)}/ranks")["ranks"]
    if not ranks:
        raise CommandError(f"Run {run} has written no log yet.", hint="Follow it with -f.")
    written = service.get(f"/runs/{quoted(run)}/logs")
    chosen = ranks if rank is None else [_one_of(run, ranks, rank)]
    for one in (one for one in chosen if one["log"] in written):
        address = f"/runs/{quoted(run)}/logs/{quoted(one['log'], keep='/')}"
        if output is Format.JSON:
            for text in service.log_texts(address):
                print_json_line({"log": one["log"], "rank": one["rank"], "role": one["role"], "text": text})
        elif rank is not None:
            service.print_log(address)
        else:
            lines = _rank_lines()
            for text in service.log_texts(address):
                lines.take(one["rank"], one["role"], text)
            lines.close()


def _print_log(service: Service, run: str, file: str | None, output: Format) -> None:
    known = service.get(f"/runs/{quoted(run)}/logs")
    if not known:
        raise CommandError(f"Run {run} has written no log yet.", hint="Follow it with -f.")
    if file is not None and file not in known:
        raise CommandError(
            f"Run {run} has no log {file!r}. It has: {', '.join(sorted(known))}.", exit_code=Exit.NOT_FOUND
        )
    path = file or _drivers_log(service, run, known)
    address = f"/runs/{quoted(run)}/logs/{quoted(path, keep='/')}"
    if output is Format.JSON:
        for text in service.log_texts(address):
            print_json_line({"log": path, "text": text})
    else:
        service.print_log(address)


def _drivers_log(service: Service, run: str, known: dict[str, int]) -> str:
    ranks = service.get(f"/runs/{quoted(run)}/ranks")["ranks"]
    first = next((one["log"] for one in ranks if one["log"] in known), None)
    return first or max((path for path in known if path.startswith("azureml-logs/")), default=max(known))


class RankPrefixer:
    """Writes logs of several ranks to one stream: whole lines, each prefixed with its rank.

    An unfinished line is kept until it ends or `close` is called. A very long one is cut into lines of
    MOST_CHARACTERS.
    """

    def __init__(self, stream: TextIO, *, coloured: bool) -> None:
        self._stream, self._coloured = stream, coloured
        self._open: dict[tuple[int, str], str] = {}

    def take(self, rank: int, role: str, text: str) -> None:
        *whole, rest = (self._open.pop((rank, role), "") + text).split("\n")
        while len(rest) > MAX_LINE_CHARACTERS:
            whole.append(rest[:MAX_LINE_CHARACTERS])
            rest = rest[MAX_LINE_CHARACTERS:]
        if rest:
            self._open[rank, role] = rest
        self._write(rank, role, whole)

    def close(self) -> None:
        for (rank, role), rest in sorted(self._open.items()):
            self._write(rank, role, [rest])
        self._open.clear()

    def _write(self, rank: int, role: str, lines: list[str]) -> None:
        if lines:
            prefix = self._prefix(rank, role)
            self._stream.write("".join(f"{prefix}{line}\n" for line in lines))
            self._stream.flush()

    def _prefix(self, rank: int, role: str) -> str:
        name = f"[rank {rank}]" if role == "worker" else f"[rank {rank} {role}]"
        return f"\x1b[{_COLOURS[rank % len(_COLOURS)]}m{name}\x1b[0m " if self._coloured else f"{name} "


def _rank_lines() -> RankPrefixer:
    return RankPrefixer(sys.stdout, coloured=sys.stdout.isatty() and not os.environ.get("NO_COLOR"))


_COLOURS = (36, 33, 35, 32, 34, 31, 96, 93, 95, 92, 94, 91)
MAX_LINE_CHARACTERS = 64 * 1024
