"""Source folder of a run, as a list of `[path, sha256, size, mode]`."""

import json
import os
import stat
import time

from runyard_sdk.blobs import hashed
from runyard_sdk.errors import InvalidArgument, TooLarge
from runyard_sdk.home import home_folder
from runyard_sdk.ignore import source_rules

WARN_BYTES = 300 * 1024 * 1024
REFUSE_BYTES = 10 * 1024 * 1024 * 1024
_ALWAYS_READ_BELOW = 16 * 1024
_STILL_WARM_NANOSECONDS = 2 * 10 ** 9


def take(folder, refuse_above=REFUSE_BYTES, warn=None, rules_of=source_rules):
    """Entries of all files that the folder's ignore rules leave in, sorted by path; see runyard_sdk.ignore.

    Unchanged files of a known folder are not read again. Raises TooLarge above `refuse_above` bytes; above `WARN_BYTES`
    calls `warn` with the largest files.
    """
    folder = os.path.abspath(folder)
    if not os.path.isdir(folder):
        raise InvalidArgument("source_directory {!r} is not a folder.".format(folder),
                              hint="Give the folder that holds the entry script.")
    rules = rules_of(folder)
    files = sorted(walk(folder, rules))
    _check_size(folder, files, refuse_above, warn, rules.file_name)
    cache = StatCache(folder)
    entries = []
    for path, full, facts in files:
        try:
            entries.append([path] + cache.hashed(path, full, facts) + [facts.st_mode & 0o777])
        except FileNotFoundError:
            continue  # removed since the folder was listed
    cache.save()
    return entries


def take_file(path):
    """Entries of a single file."""
    sha256, size = hashed(path)
    return [[os.path.basename(path), sha256, size, os.stat(path).st_mode & 0o777]]


def walk(folder, rules):
    """`(path with forward slashes, full path, stat)` of every regular file that is not excluded.

    Follows links, but a link to a parent folder only once, and a link out of the folder only if the rules allow it.
    Skips sockets, pipes and devices.
    """
    above = {_identity(os.stat(folder))}
    bounds = None if rules.follows_links_out else os.path.join(os.path.realpath(folder), "")
    return _walk(folder, "", rules, above, bounds)


def _walk(folder, prefix, rules, above, bounds):
    with os.scandir(folder) as found:
        items = list(found)
    for item in items:
        path = prefix + item.name
        try:
            facts = item.stat()
        except OSError:
            continue  # a dangling link, or removed since the folder was listed
        if bounds and item.is_symlink() and not os.path.realpath(item.path).startswith(bounds):
            continue
        is_folder = stat.S_ISDIR(facts.st_mode)
        if rules.leave_out(path, is_folder):
            continue
        if is_folder:
            identity = _identity(facts)
            if identity not in above:
                for below in _walk(item.path, path + "/", rules, above | {identity}, bounds):
                    yield below
        elif stat.S_ISREG(facts.st_mode):
            _check_name(path)
            yield path, item.path, facts


def _identity(facts):
    return facts.st_dev, facts.st_ino


def _check_name(path):
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument("The file name {!r} is not UTF-8.".format(path), hint="Rename it, or take it out.")


def _check_size(folder, files, refuse_above, warn, ignore_file):
    total = sum(facts.st_size for _, _, facts in files)
    if total <= WARN_BYTES and total <= refuse_above:
        return
    largest = sorted(files, key=lambda file: -file[2].st_size)[:5]
    named = ", ".join("{} ({})".format(path, _readable(facts.st_size)) for path, _, facts in largest)
    if total > refuse_above:
        raise TooLarge("The folder {} holds {}, and at most {} are taken. Largest: {}.".format(
            folder, _readable(total), _readable(refuse_above), named),
            hint="List what is not needed in {}, put data into a datastore, or raise "
                 "azureml._restclient.snapshots_client.SNAPSHOT_MAX_SIZE_BYTES.".format(ignore_file))
    if warn:
        warn("The folder {} holds {}. Largest: {}. List what is not needed in {}.".format(
            folder, _readable(total), named, ignore_file))


def _readable(size):
    for unit in ("bytes", "KB", "MB"):
        if size < 1024:
            return "{:.0f} {}".format(size, unit)
        size /= 1024.0
    return "{:.1f} GB".format(size)


class StatCache:
    """Cache of file hashes, valid while size, times and inode are the same.

    Small files are always read. So is a file that changed within two seconds of hashing: its times would not show a
    second change. A cache that cannot be read or written only costs time.
    """

    def __init__(self, folder):
        import hashlib

        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32] + ".json"
        self._path = os.path.join(home_folder(), "stat-cache", name)
        self._known = None
        self._fresh = {}
        self._changed = False

    def hashed(self, path, full_path, facts):
        """`[sha256, size]` of the file, whose size may differ from `facts` by now."""
        if facts.st_size < _ALWAYS_READ_BELOW:
            return hashed(full_path)
        if self._known is None:
            self._known = self._load()
        seen = [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]
        known = self._known.get(path)
        if known and known[:4] == seen:
            self._fresh[path] = known
            return [known[4], known[0]]
        digest, size = hashed(full_path)
        self._changed = True
        if time.time() * 10 ** 9 - max(facts.st_mtime_ns, facts.st_ctime_ns) > _STILL_WARM_NANOSECONDS:
            self._fresh[path] = seen + [digest]
        return [digest, size]

    def save(self):
        if not self._changed and (self._known is None or len(self._known) == len(self._fresh)):
            return
        partial = "{}.{}".format(self._path, os.getpid())
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with open(partial, "w") as sink:
                json.dump(self._fresh, sink)
            os.replace(partial, self._path)
        except (OSError, ValueError):
            pass

    def _load(self):
        try:
            with open(self._path) as source:
                found = json.load(source)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
