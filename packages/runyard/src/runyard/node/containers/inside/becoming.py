"""What a process of ours does before it becomes a user's program. On any Python from 3.6 on."""

import os


def print_into(log: str) -> None:
    """From now on its output goes to the end of that file, and nothing is there to be read."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(output)
    os.close(nothing)


def prefer_for_out_of_memory() -> None:
    """When memory runs out the kernel should take the script, not those who look after it."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")
    except OSError:
        pass


def with_variables(word: str, variables: "dict[str, str]") -> str:
    """Each $NAME or ${NAME} that there is."""
    if "$" not in word:
        return word
    import re

    return re.sub(
        r"\$(?:\{(\w+)\}|(\w+))", lambda found: variables.get(found.group(1) or found.group(2), found.group(0)), word
    )
