"""Ignore rules: gitignore rules for a source folder, Docker's for a build context."""

import os
import re


def source_rules(folder):
    """Rules of a source folder: its `.amlignore`, else `.gitignore`; without either nothing is excluded."""
    for name in (".amlignore", ".gitignore"):
        if os.path.isfile(os.path.join(folder, name)):
            return Rules(_lines(folder, name))
    return Rules([])


def context_rules(folder):
    """Rules of a build context: its `.dockerignore`."""
    return DockerRules(_lines(folder, ".dockerignore"))


def no_rules(folder):
    """Rules that exclude nothing."""
    return Rules([])


def _lines(folder, name):
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="surrogateescape") as source:
            return source.read().splitlines()
    except FileNotFoundError:
        return []


class Rules:
    """gitignore patterns in order; the last that matches decides."""

    file_name = ".amlignore"
    follows_links_out = True

    def __init__(self, lines):
        self._patterns = [pattern for pattern in map(_compiled, lines) if pattern]

    def leave_out(self, path, is_folder):
        """Whether this path, relative and with forward slashes, is excluded by its own name.

        A caller that walks from the top skips excluded folders: nothing below can be re-included, as in git.
        """
        left_out = False
        for matches, keeps, folders_only in self._patterns:
            if left_out == keeps and (is_folder or not folders_only) and matches(path):
                left_out = not keeps
        return left_out


class DockerRules:
    """Docker's patterns: relative to the root; an exception also re-includes what is below it."""

    file_name = ".dockerignore"
    follows_links_out = False  # Building from somebody else's folder must not send one's own files.

    def __init__(self, lines):
        texts = (line.strip() for line in lines)
        self._patterns = [pattern for pattern in map(_compiled, map(_from_the_root, texts)) if pattern]
        self._has_exceptions = any(keeps for _, keeps, _ in self._patterns)

    def leave_out(self, path, is_folder):
        """See Rules.leave_out; a folder is kept while an exception may re-include something in it."""
        if is_folder and self._has_exceptions:
            return False
        left_out = False
        for matches, keeps, _ in self._patterns:
            if left_out == keeps and any(matches(one) for one in _with_folders_above(path)):
                left_out = not keeps
        return left_out


def _from_the_root(line):
    sign, pattern = ("!", line[1:].strip()) if line.startswith("!") else ("", line)
    if not pattern or pattern.startswith("#"):
        return ""
    return sign + "/" + "/".join(part for part in pattern.split("/") if part not in ("", "."))


def _with_folders_above(path):
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


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
    prefix = "" if anchored else _ANY_FOLDERS
    try:
        return re.compile("(?s){}{}\\Z".format(prefix, expression)).match, keeps, folders_only
    except re.error:
        return None  # in git, too, a malformed pattern matches nothing


def _without_trailing_spaces(line):
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    return line


_ANY_FOLDERS = "(?:[^/]+/)*?"


def _as_expression(pattern):
    """Regular expression without backtracking, however many stars: what follows a star is searched once, from the left.
    """
    parts = pattern.split("/")
    once = _Once()
    result, after = [], ""  # `after`: the parts since the last `**`, included
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        if part == "**":
            result.append(once(after) if after.startswith(_ANY_FOLDERS) else after)
            after = ".+" if last else _ANY_FOLDERS
        else:
            after += _segment(part, once) + ("" if last else "/")
    return "".join(result) + after


class _Once(object):
    """Makes atomic groups, which `re` has only from Python 3.11 on."""

    def __init__(self):
        self._count = 0

    def __call__(self, expression):
        self._count += 1
        return "(?=(?P<once{0}>{1}))(?P=once{0})".format(self._count, expression)


def _segment(part, once):
    pieces, position = [""], 0
    while position < len(part):
        char = part[position]
        position += 1
        if char == "*":
            pieces.append("")
        elif char == "?":
            pieces[-1] += "[^/]"
        elif char == "\\" and position < len(part):
            pieces[-1] += re.escape(part[position])
            position += 1
        elif char == "[":
            text, position = _character_set(part, position)
            pieces[-1] += text
        else:
            pieces[-1] += re.escape(char)
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(once("[^/]*?" + piece) for piece in pieces[1:-1] if piece)
    return pieces[0] + middle + "[^/]*" + pieces[-1]


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
