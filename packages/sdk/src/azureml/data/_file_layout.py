"""Where each file of a file dataset lies below its root: to_path(), download and the service's mounts agree."""
import re

_GLOB = frozenset("*?[")


def web_path(urls, url):
    """The path of one address: its file name where it is the only source, else with scheme and host in front."""
    from urllib.parse import quote, urlsplit
    parts = urlsplit(url)
    segments = [_safe(segment) for segment in parts.path.split("/") if segment] or ["index"]
    if parts.query:
        segments[-1] += quote("?" + parts.query, safe="=&")
    if len(urls) == 1:
        return segments[-1]
    return "/".join([parts.scheme + "%3A", "%2F" + quote(parts.netloc.rpartition("@")[2], safe="")] + segments)


def stored_path(only_source, datastore, pattern, name):
    """The path of a datastore's file: below the fixed part of the only source, else with the datastore in front."""
    if not only_source:
        return "%s/%s" % (datastore, name)
    above = fixed_part(pattern)
    if name == above:
        return name.rpartition("/")[2]
    return name[len(above) + 1:] if above else name


def fixed_part(pattern):
    """The folder of a datastore path before its first glob segment; the whole path where it has none."""
    kept = []
    for segment in pattern.strip("/").split("/"):
        if _GLOB & set(segment):
            break
        kept.append(segment)
    return "/".join(kept)


def matching(names, pattern):
    """The names that a path or glob means; a folder means all files below it."""
    pattern = pattern.strip("/")
    if not pattern:
        return list(names)
    segments, text = pattern.split("/"), ""
    for at, segment in enumerate(segments):
        is_last = at == len(segments) - 1
        if segment == "**":
            text += ".*" if is_last else "(?:.*/)?"
        else:
            text += _segment(segment) + ("(?:/.*)?" if is_last else "/")
    wanted = re.compile(text + r"\Z", re.DOTALL)
    return [name for name in names if wanted.match(name)]


def _segment(segment):
    """One segment of a glob as a regular expression; its stars stop at slashes."""
    text, at = "", 0
    while at < len(segment):
        char, end = segment[at], segment.find("]", at + 2)
        if char == "[" and end != -1:
            inside = segment[at + 1:end].replace("\\", "\\\\")
            text, at = text + "[%s]" % ("^" + inside[1:] if inside[0] == "!" else inside), end
        else:
            text += {"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char)
        at += 1
    return text


def _safe(segment):
    from urllib.parse import quote
    if segment in (".", ".."):
        return segment.replace(".", "%2E")
    return quote(segment, safe="%!$&'()*+,;=:@~")
