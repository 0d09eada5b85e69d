"""YAML parser for environments without PyYAML: a Scanner for tokens, and a reader that emits events to a Builder."""

import re

from azureml._yaml.values import YamlError

_GAP = re.compile(r" *(#[^\n]*)?")
_MARKER = re.compile(r"(---|\.\.\.)(?=[ \n])")
_NAME = re.compile(r"[A-Za-z0-9_-]+(?=[ \n,\]}])")
_NEVER_FIRST = ",[]{}#&*!|>'\"%@`"
_PLAIN = re.compile(r"(?:[^ \t\n:#]|:(?![ \t\n])|(?<=[^ \t\n])#| +(?=[^ \t\n:#]|:[^ \t\n]))+")
_PLAIN_IN_FLOW = re.compile(
    r"(?:[^ \t\n:#,?\[\]{}]|:(?![ \t\n,\[\]{}])|(?<=[^ \t\n])#| +(?=[^ \t\n:#,?\[\]{}]|:[^ \t\n,\[\]{}]))+")
_IN_SINGLE_QUOTES = re.compile(r"[^' \t\n]+")
_IN_DOUBLE_QUOTES = re.compile(r'[^"\\ \t\n]+')
_BLANKS_IN_QUOTES = re.compile(r"[ \t]+(?![ \t\n])")
_DIGITS = re.compile(r"[0-9A-Fa-f]{2,8}\Z")
_LINES_BETWEEN = re.compile(r"[ \t]*\n[ \t\n]*")
_BLOCK_HEADER = re.compile(r"[|>](?:([+-])([1-9])?|([1-9])([+-])?)?(?: +#[^\n]*| *)\n")
_ESCAPES = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r",
            "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028",
            "P": "\u2029"}
_HEXADECIMAL = {"x": 2, "u": 4, "U": 8}
_BEYOND = {"!": "a tag", "%": "a directive", "?": "a complex key", "@": "a reserved character",
           "`": "a reserved character"}
MAX_KEY = 1024
_COLON = re.compile(r" *:")


class Scanner(object):
    """Position in a text that ends with a newline."""

    def __init__(self, text):
        self._text = text
        self._at, self._line, self._line_start = 0, 1, 0

    def _skip(self):
        """Skip blanks, comments and line ends."""
        while self._at < len(self._text):
            self._at = _GAP.match(self._text, self._at).end()
            char = self._char()
            if char == "\t":
                raise self._error("holds a tab; use spaces")
            if char != "\n":
                return
            self._go_to(self._at + 1)

    def _go_to(self, place):
        crossed = self._text.count("\n", self._at, place)
        if crossed:
            self._line += crossed
            self._line_start = self._text.rindex("\n", self._at, place) + 1
        self._at = place

    def _char(self):
        return self._text[self._at] if self._at < len(self._text) else "\n"

    def _column(self):
        return self._at - self._line_start

    def _is_over(self):
        """Whether the document ends at this position."""
        at_marker = self._at == self._line_start and _MARKER.match(self._text, self._at)
        return bool(at_marker) or self._at >= len(self._text)

    def _is_item(self):
        return self._char() == "-" and self._text[self._at + 1] in " \t\n"

    def _name(self):
        match = _NAME.match(self._text, self._at + 1)
        if not match:
            raise self._error("has an anchor or alias without a name of letters, digits, '-' and '_'")
        self._at = match.end()
        return match.group()

    def _key_follows(self):
        """Whether a key and a colon follow on this line."""
        char = self._char()
        if char in "\"'":
            end = self._quote_end()
        else:
            match = _PLAIN.match(self._text, self._at) if self._begins_plain(in_flow=False) else None
            end = match.end() if match else 0
        while end and self._text[end] == " ":
            end += 1
        is_key = bool(end) and self._text[end] == ":" and self._text[end + 1] in " \t\n"
        return is_key and end - self._at <= MAX_KEY

    def _quote_end(self):
        """Index after the closing quote on the same line, or 0 if there is none."""
        quote, at = self._text[self._at], self._at + 1
        while self._text[at] != "\n":
            if quote == '"' and self._text[at] == "\\":
                at += 1
            elif self._text[at] == quote:
                if quote == '"' or self._text[at + 1] != "'":
                    return at + 1
                at += 1
            at += self._text[at] != "\n"
        return 0

    def _scalar_text(self, parent, in_flow, is_key=False):
        """Scalar at this position, and whether it is plain (unquoted)."""
        char = self._char()
        if char in "\"'":
            return self._quoted(char), False
        if not self._begins_plain(in_flow):
            raise self._error("uses %s, which is not read here" % _BEYOND.get(char, "%r as a value" % char))
        matched = _PLAIN_IN_FLOW.match if in_flow else _PLAIN.match
        match = matched(self._text, self._at)
        self._at = match.end()
        parts = [match.group()]
        while not is_key:
            blank = _LINES_BETWEEN.match(self._text, self._at)
            if not blank or "\t" in blank.group():
                break
            breaks = blank.group().count("\n")
            here = (self._at, self._line, self._line_start)
            self._go_to(blank.end())
            match = matched(self._text, self._at)
            if self._is_over() or self._column() <= parent or match is None or self._char() == "#":
                self._at, self._line, self._line_start = here
                break
            parts.append("\n" * (breaks - 1) or " ")
            parts.append(match.group())
            self._at = match.end()
        return "".join(parts), True

    def _begins_plain(self, in_flow):
        char = self._char()
        if char in "-?:":
            return self._text[self._at + 1] not in " \t\n" and (char == "-" or not in_flow)
        return char not in _NEVER_FIRST

    def _quoted(self, quote):
        start, parts = self._line, []
        self._at += 1
        matched = _IN_SINGLE_QUOTES.match if quote == "'" else _IN_DOUBLE_QUOTES.match
        while True:
            match = matched(self._text, self._at)
            if match:
                parts.append(match.group())
                self._at = match.end()
            char = self._text[self._at] if self._at < len(self._text) else ""
            if char == quote and quote == "'" and self._text[self._at + 1] == "'":
                parts.append("'")
                self._at += 2
            elif char == quote:
                self._at += 1
                return "".join(parts)
            elif char == "\\":
                parts.append(self._escaped())
            elif char in " \t\n" and char:
                parts.append(self._quoted_gap())
            else:
                raise YamlError("Line %d has a quote that is not closed." % start)

    def _quoted_gap(self):
        """Whitespace in quotes: blanks are kept; a line end with the blanks around it becomes a blank, or newlines for
        empty lines."""
        match = _BLANKS_IN_QUOTES.match(self._text, self._at)
        if match:
            self._at = match.end()
            return match.group()
        breaks = self._pass_lines()
        return "\n" * (breaks - 1) or " "

    def _pass_lines(self):
        match = _LINES_BETWEEN.match(self._text, self._at)
        if match is None:
            raise self._error("has a quote that is not closed")
        self._go_to(match.end())
        if self._column() == 0 and self._is_over():
            raise self._error("comes before a quote is closed")
        return match.group().count("\n")

    def _escaped(self):
        char = self._text[self._at + 1]
        if char in _ESCAPES:
            self._at += 2
            return _ESCAPES[char]
        if char == "\n":
            self._at += 1
            return "\n" * (self._pass_lines() - 1)
        size = _HEXADECIMAL.get(char, 0)
        digits = self._text[self._at + 2:self._at + 2 + size]
        if not size or len(digits) < size or not _DIGITS.match(digits) or int(digits, 16) > 0x10ffff:
            raise self._error("has an escape that is not read here: %r" % ("\\" + char + digits))
        self._at += 2 + size
        return chr(int(digits, 16))

    def _block_text(self, parent):
        """Text of a '|' or '>' block whose lines are indented by more than `parent`."""
        header = _BLOCK_HEADER.match(self._text, self._at)
        if not header:
            raise self._error("has block text with indicators that are not read here")
        is_folded = self._char() == ">"
        chomping, given = header.group(1) or header.group(4), header.group(2) or header.group(3)
        self._go_to(header.end())
        least = max(parent + 1, 1)
        indent = least + int(given) - 1 if given else self._indent_of_text(least)
        lines = []
        while self._at < len(self._text):
            end = self._text.index("\n", self._at)
            body = self._text[self._at:end]
            if body[:indent].strip(" "):
                break
            lines.append(body[indent:])
            self._go_to(end + 1)
        kept = len(lines)
        while kept and not lines[kept - 1]:
            kept -= 1
        text = _folded(lines[:kept]) if is_folded else "\n".join(lines[:kept])
        if chomping != "-" and kept:
            text += "\n"
        if chomping == "+":
            text += "\n" * (len(lines) - kept)
        return text

    def _indent_of_text(self, least):
        """Indentation of block text: that of its first non-blank line."""
        at = self._at
        widest = least
        while at < len(self._text):
            end = self._text.index("\n", at)
            body = self._text[at:end]
            width = len(body) - len(body.lstrip(" "))
            widest = max(widest, width)
            if body.strip(" "):
                if least <= width < widest:
                    raise self._error("has block text below a blank line that is indented more than the text")
                break
            at = end + 1
        return widest

    def _error(self, what):
        end = self._text.find("\n", self._line_start)
        shown = self._text[self._line_start:end][:80].strip()
        return YamlError("Line %d %s: %r." % (self._line, what, shown))


def _folded(lines):
    """Fold the lines of a '>' block: line ends become blanks, except around empty and indented lines."""
    parts, previous, empty = [], None, 0
    for line in lines:
        if not line:
            empty += 1
            continue
        if previous is None:
            parts.append("\n" * empty)
        elif line[0] in " \t" or previous[0] in " \t":
            parts.append("\n" * (empty + 1))
        else:
            parts.append("\n" * empty or " ")
        parts.append(line)
        previous, empty = line, 0
    return "".join(parts)


def read(text, builder):
    """Parse the text, which ends with a newline, and emit its events to the builder."""
    _Reader(text, builder).document()


class _Reader(Scanner):
    def __init__(self, text, builder):
        super(_Reader, self).__init__(text)
        self._builder = builder

    def document(self):
        self._skip()
        is_inline = self._text.startswith("---", self._at) and self._is_over()
        if self._at == len(self._text):
            return
        if is_inline:
            self._at += 3
        elif self._is_over():
            raise self._error("ends a document that has not begun")
        self._node(-1, may_hold_key=not is_inline)
        self._skip()
        if self._text.startswith("...", self._at) and self._is_over():
            self._at += 3
            self._skip()
        if self._text.startswith("---", self._at) and self._is_over():
            self._builder.document(self._line)
            self._builder.document(self._line)
        if self._at < len(self._text):
            raise self._error("is not indented like the lines before it, or goes on after its value")

    # Blocks

    def _node(self, parent, may_hold_key, may_be_level=False):
        """Parse the value at this position, whose lines are indented by more than `parent`. With `may_be_level` a
        sequence may have the same indentation; with `may_hold_key` a mapping or sequence may begin on this line."""
        line = self._line
        self._skip()
        may_hold_key = may_hold_key or self._line > line
        if not self._is_inside(parent, line, may_be_level):
            return self._builder.scalar("", line, True)
        if self._char() != "&":
            return self._content(parent, may_hold_key, None, self._column())
        column, line = self._column(), self._line
        anchor = self._name()
        self._skip()
        if self._line == line:
            return self._content(parent, may_hold_key and self._key_follows(), anchor, column)
        if not self._is_inside(parent, line, may_be_level):
            return self._builder.scalar("", line, True, anchor)
        if self._char() == "&":
            raise self._error("has a second anchor for one value")
        return self._content(parent, True, anchor, self._column(), owns_anchor=True)

    def _is_inside(self, parent, line, may_be_level):
        if self._is_over():
            return False
        level = may_be_level and self._column() == parent and self._is_item()
        return self._line == line or self._column() > parent or level

    def _content(self, parent, may_hold_key, anchor, column, owns_anchor=False):
        """Parse a node behind its anchor. An anchor on the line of a mapping's first key belongs to the key, unless the
        collection `owns_anchor`."""
        char = self._char()
        if self._is_item():
            if not may_hold_key or (anchor is not None and not owns_anchor):
                raise self._error("begins a list after something else; begin it on a line of its own")
            self._sequence(column, anchor)
        elif char == "*":
            self._alias(anchor)
        elif char in "|>":
            line = self._line
            self._builder.scalar(self._block_text(parent), line, False, anchor)
        elif may_hold_key and self._key_follows():
            if owns_anchor:
                self._mapping(column, anchor, None)
            else:
                self._mapping(column, None, anchor)
        elif char in "[{":
            self._flow_collection(anchor)
            self._refuse_colon()
        else:
            line = self._line
            text, is_plain = self._scalar_text(parent, in_flow=False)
            self._builder.scalar(text, line, is_plain, anchor)

    def _sequence(self, column, anchor):
        self._builder.begin([], self._line, anchor)
        while True:
            self._at += 1
            self._node(column, may_hold_key=True)
            if not self._next_entry(column) or not self._is_item():
                break
        self._builder.end()

    def _mapping(self, column, anchor, key_anchor):
        self._builder.begin({}, self._line, anchor)
        while True:
            text, is_plain = self._scalar_text(column, in_flow=False, is_key=True)
            self._builder.scalar(text, self._line, is_plain, key_anchor)
            self._skip()
            self._at += 1
            self._node(column, may_hold_key=False, may_be_level=True)
            if not self._next_entry(column):
                break
            line, key_anchor = self._line, self._name() if self._char() == "&" else None
            self._skip()
            if self._line > line or self._is_item() or not self._key_follows():
                raise self._error("should be 'key: value'")
        self._builder.end()

    def _next_entry(self, column):
        """Go to the next line; return whether it is an entry of the collection in that column."""
        self._skip()
        if self._is_over() or self._column() < column:
            return False
        if self._text[self._line_start:self._at].strip(" "):
            raise self._error("goes on after its value")
        if self._column() > column:
            raise self._error("is not indented like the lines before it")
        return True

    # Flow collections

    def _flow_collection(self, anchor):
        is_list = self._char() == "["
        close = "]" if is_list else "}"
        self._builder.begin([] if is_list else {}, self._line, anchor)
        self._at += 1
        self._skip_in_flow()
        while self._char() != close:
            self._flow_entry(is_list)
            self._skip_in_flow()
            if self._char() == ",":
                self._at += 1
                self._skip_in_flow()
            elif self._char() != close:
                raise self._error("should have ',' or '%s'" % close)
        self._at += 1
        self._builder.end()

    def _flow_entry(self, is_list):
        start, start_line = self._at, self._line
        anchor = self._flow_anchor()
        if self._char() in "[{*":
            self._flow_node(anchor)
            self._refuse_colon()
            return
        line = self._line
        text, is_plain = self._scalar_text(-1, in_flow=True)
        self._skip_in_flow()
        if self._char() != ":":
            self._builder.scalar(text, line, is_plain, anchor)
            if not is_list:
                self._builder.scalar("", line, True)
            return
        if self._line > start_line or self._at - start > MAX_KEY:
            raise self._error("ends a key that is too long or goes over several lines")
        if is_list:
            self._builder.begin({}, line)
        self._builder.scalar(text, line, is_plain, anchor)
        self._at += 1
        self._skip_in_flow()
        self._flow_node(self._flow_anchor())
        if is_list:
            self._builder.end()

    def _flow_anchor(self):
        anchor = self._name() if self._char() == "&" else None
        self._skip_in_flow()
        return anchor

    def _flow_node(self, anchor):
        char, line = self._char(), self._line
        if char == "*":
            self._alias(anchor)
        elif char in "[{":
            self._flow_collection(anchor)
        elif char in ",]}":
            self._builder.scalar("", line, True, anchor)
        else:
            text, is_plain = self._scalar_text(-1, in_flow=True)
            self._builder.scalar(text, line, is_plain, anchor)

    def _skip_in_flow(self):
        self._skip()
        if self._is_over():
            raise self._error("comes before a list or mapping is closed")

    def _alias(self, anchor):
        if anchor is not None:
            raise self._error("has an anchor before an alias")
        line = self._line
        self._builder.alias(self._name(), line)
        self._refuse_colon()

    def _refuse_colon(self):
        if _COLON.match(self._text, self._at):
            raise self._error("has a key that is no text. Write the key out")
