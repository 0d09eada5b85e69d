"""Our own reader, for runs whose environment has no PyYAML. It reads one document of block and flow collections, plain
and quoted text, block text, comments, anchors, aliases and merge keys, as PyYAML does; anything else is a YamlError."""
import re

from azureml._yaml.scanning import MAX_KEY, Scanner

_COLON = re.compile(r" *:")


def read(text, builder):
    """Hand the events of a text, which ends with a line end, to the builder."""
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
        """The value from here on, whose lines are indented by more than `parent`. A sequence may be indented as much
        when it `may_be_level`; `may_hold_key` where a mapping or sequence may begin on this line."""
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
        """A node without its anchor. An anchor on the line of a mapping's first key is the key's, unless the
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
        """Go to the next line; whether it is one of the collection in that column."""
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
