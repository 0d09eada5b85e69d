"""Forms as browsers and `requests` send files: multipart/form-data."""
import io
from email.message import Message
from email.parser import BytesHeaderParser

from runyard_sdk.scoring.answers import Refused

MOST_PARTS = 1000


class UploadedFile(io.BytesIO):
    """A file of a form, at its beginning; `name` is the field, `filename` what the client called it."""

    def __init__(self, content, name, filename, content_type):
        super(UploadedFile, self).__init__(content)
        self.name, self.filename, self.content_type = name, filename, content_type

    @property
    def stream(self):
        return self

    @property
    def mimetype(self):
        return self.content_type.split(";")[0].strip()

    def save(self, target):
        """Write it to a path or an open file."""
        if hasattr(target, "write"):
            target.write(self.getvalue())
        else:
            with open(target, "wb") as sink:
                sink.write(self.getvalue())


def parse_multipart(body, content_type):
    """([(field, text)], [(field, UploadedFile)]) of a body; Refused with 400 for one without boundaries."""
    boundary = _header(content_type).get_param("boundary")
    if not boundary:
        raise Refused(400, "The Content-Type %r names no boundary." % content_type)
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1"), MOST_PARTS + 1)
    if len(pieces) > MOST_PARTS + 1:
        raise Refused(413, "The form has more than %d parts." % MOST_PARTS)
    fields, files = [], []
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            break
        head, found, content = piece.partition(b"\r\n\r\n")
        if not found:
            raise Refused(400, "A part of the form has no end to its headers.")
        _place(BytesHeaderParser().parsebytes(head.lstrip(b"\r\n")), content, fields, files)
    return fields, files


def _place(part, content, fields, files):
    name = part.get_param("name", "", header="content-disposition")
    filename = part.get_filename()
    if filename is None:
        charset = part.get_content_charset() or "utf-8"
        fields.append((name, content.decode(charset, "replace")))
    else:
        files.append((name, UploadedFile(content, name, filename, part.get("Content-Type", ""))))


def _header(content_type):
    header = Message()
    header["Content-Type"] = content_type
    return header
