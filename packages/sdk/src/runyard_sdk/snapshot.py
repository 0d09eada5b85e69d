"""The source folder of a run, as a list of `[path, sha256, size, mode]`."""

import os
import stat

from runyard_sdk.blobs import hashed
from runyard_sdk.errors import InvalidArgument, TooLarge
from runyard_sdk.ignore import source_rules
from runyard_sdk.statcache import StatCache

WARN_BYTES = 300 * 1024 * 1024
REFUSE_BYTES = 10 * 1024 * 1024 * 1024


def take(folder, refuse_above=REFUSE_BYTES, warn=None, rules_of=source_rules):
    """Entries of all files that the rules of the folder leave in, sorted by path; see runyard_sdk.ignore.

    Unchanged files of a folder seen before are not read again. Raises TooLarge above `refuse_above` bytes;
    above `WARN_BYTES` it goes on and tells `warn` which files are the largest.
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
            continue  # gone since the folder was read
    cache.save()
    return entries


def take_file(path):
    """The entries of one file alone."""
    sha256, size = hashed(path)
    return [[os.path.basename(path), sha256, size, os.stat(path).st_mode & 0o777]]


def walk(folder, rules):
    """`(path with forward slashes, full path, stat)` of every regular file that is not left out.

    Links are followed, a link that leads back up only once; one that leads out of the folder where the rules say so.
    Sockets, pipes and devices are no files.
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
            continue  # a dangling link, or gone since the folder was read
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
