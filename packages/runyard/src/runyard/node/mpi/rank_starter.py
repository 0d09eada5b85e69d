"""Becomes one rank of an MPI run: `rank_starter.py COMMAND...`, started by Open MPI on the rank's node.

RUNYARD_RANK_FILE names a JSON file of that node:
{"python", "placeholders": {text: path}, "work", "std", "notices", "files"}.
Runs alone on any Python from 3.6 on.
"""

import os
import sys

OF_NODE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = sys.dont_write_bytecode or __name__ == "__main__"
sys.path.insert(0, os.path.join(OF_NODE, "containers", "inside"))
from process_setup import prefer_for_out_of_memory, print_into, with_variables  # type: ignore[import-not-found] # noqa: E402

if False:  # the module is slow to load
    from typing import Any

NOT_STARTED = 127
IN_RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_rank")


def main(words: "list[str]") -> int:
    rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMIX_RANK"]
    with open(os.environ["RUNYARD_RANK_FILE"], "rb") as file:
        node = parsed(file.read().decode("utf-8"))
    print_into(os.path.join(node["std"], f"70_driver_log_{rank}.txt"))
    if rank == "0":
        for line in node.get("notices", ()):
            os.write(1, (line + "\n").encode())
    prefer_for_out_of_memory()
    allow_files(node.get("files"))
    os.environ["RUNYARD_RANK"] = rank
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), IN_RANK)))
    command = filled_in(words, node)
    try:
        os.chdir(node["work"])
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]} could not be started: {error.strerror}.\n".encode())
        return NOT_STARTED


def parsed(text: str) -> "dict[str, Any]":
    """Parse JSON without the module json: its import would take half of the time until the script starts."""
    try:
        from _json import make_scanner
    except ImportError:  # another Python than the usual
        import json

        return dict(json.loads(text))
    return dict(make_scanner(AsUsual)(text, 0)[0])  # type: ignore[arg-type]


class AsUsual:
    """Options of the JSON scanner: the usual ones."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, float


def allow_files(count: "int | None") -> None:
    """Restore the limit of open files: launchers of ranks have a low one."""
    if count is not None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard)
        )


def filled_in(words: "list[str]", node: "dict[str, Any]") -> "list[str]":
    """Command with this node's interpreter, data paths and variables filled in. A shell expands its own text."""
    is_python = words[0] == "{python}"
    words = [node["python"] if word == "{python}" else word for word in words]
    # Longest first: one placeholder may be a prefix of another.
    for text, path in sorted(dict(node.get("placeholders", ())).items(), key=lambda pair: -len(pair[0])):
        words = [word.replace(text, path) for word in words]
    return [words[0]] + [with_variables(word, dict(os.environ)) for word in words[1:]] if is_python else words


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
