"""Where a reader stands in a YAML text, and the texts that it takes from there."""
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


class Scanner(object):
    """A place in a text that ends with a line end."""

    def __init__(self, text):
        self._text = text
        self._at, self._line, self._line_start = 0, 1, 0

    def _skip(self):
        """Go to the next thing that is no blank, comment or line end."""
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
        """Whether the document ends here."""
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
        """Whether text and a colon stand here on one line."""
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
        """The index after the quote that closes the one here on the same line; 0 where none does."""
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
        """The text here, and whether it is without quotes."""
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
        """Blanks in quotes as they are; a line end, with the blanks around it, as a blank or as the empty lines."""
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
        """The text below '|' or '>', whose lines are indented by more than `parent`."""
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
        """How far block text is indented: as its first line that is not blank."""
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
    """The lines of '>' as one text: line ends become blanks, except around empty and indented lines."""
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
