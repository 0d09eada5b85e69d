"""What a process does before it executes the user's program. Runs on any Python from 3.6 on."""

import os


def print_into(log: str) -> None:
    """Append the output to that file, and read from /dev/null."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(output)
    os.close(nothing)


def prefer_for_out_of_memory() -> None:
    """Raise the OOM score: out of memory, the kernel should kill the script, not its supervisor."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")
    except OSError:
        pass


def with_variables(word: str, variables: "dict[str, str]") -> str:
    """Replace $NAME and ${NAME} where the variable is set."""
    if "$" not in word:
        return word
    import re

    return re.sub(
        r"\$(?:\{(\w+)\}|(\w+))", lambda found: variables.get(found.group(1) or found.group(2), found.group(0)), word
    )
