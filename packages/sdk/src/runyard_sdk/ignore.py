"""What of a source folder stays behind: gitignore rules, from the folder's own `.amlignore`, else `.gitignore`."""

import os
import re


def rules_of(folder):
    """The rules that hold for a source folder. Only its root is looked at; no file means nothing is left out."""
    for name in (".amlignore", ".gitignore"):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="surrogateescape") as source:
                return Rules(source.read().splitlines())
    return Rules([])


class Rules:
    """gitignore patterns in order; the last that matches decides."""

    def __init__(self, lines):
        self._patterns = [pattern for pattern in map(_compiled, lines) if pattern]

    def leave_out(self, path, is_folder):
        """Whether this path, relative and with forward slashes, is left out by its own name.

        A caller that walks from the top never asks about what lies below a folder that is left out: nothing
        there can be taken back in, as in git.
        """
        left_out = False
        for matches, keeps, folders_only in self._patterns:
            if left_out == keeps and (is_folder or not folders_only) and matches(path):
                left_out = not keeps
        return left_out

    def __bool__(self):
        return bool(self._patterns)


def _compiled(line):
    line = _without_trailing_spaces(line.rstrip("\r\n"))
    if not line or line.startswith("#"):
        return None
    keeps = line.startswith("!")
    if keeps:
        line = line[1:]
    elif line.startswith(("\\#", "\\!")):
        line = line[1:]
    folders_only = line.endswith("/")
    line = line.rstrip("/") if folders_only else line
    if not line:
        return None
    anchored = "/" in line
    expression = _as_expression(line.lstrip("/") if anchored else line)
    prefix = "" if anchored else "(?:.*/)?"
    try:
        return re.compile("(?s){}{}\\Z".format(prefix, expression)).match, keeps, folders_only
    except re.error:
        return None  # git, too, lets a malformed pattern match nothing


def _without_trailing_spaces(line):
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    return line


def _as_expression(pattern):
    parts = pattern.split("/")
    result = []
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        if part == "**":
            result.append(".+" if last else "(?:.+/)?")
        else:
            result.append(_segment(part) + ("" if last else "/"))
    return "".join(result)


def _segment(part):
    result, position = [], 0
    while position < len(part):
        char = part[position]
        position += 1
        if char == "*":
            result.append("[^/]*")
        elif char == "?":
            result.append("[^/]")
        elif char == "\\" and position < len(part):
            result.append(re.escape(part[position]))
            position += 1
        elif char == "[":
            text, position = _character_set(part, position)
            result.append(text)
        else:
            result.append(re.escape(char))
    return "".join(result)


def _character_set(part, start):
    end = start
    if part[end:end + 1] in ("!", "^"):
        end += 1
    if part[end:end + 1] == "]":
        end += 1
    end = part.find("]", end)
    if end == -1:
        return "\\[", start
    inner = part[start:end]
    if inner[0] in "!^":
        return "(?!/)[^{}]".format(inner[1:].replace("\\", "\\\\").replace("[", "\\[")), end + 1
    return "[{}]".format(inner.replace("\\", "\\\\").replace("[", "\\[")), end + 1
