import json
import os
import time

from runyard_sdk.blobs import hashed
from runyard_sdk.home import home_folder

_ALWAYS_READ_BELOW = 16 * 1024
_STILL_WARM_NANOSECONDS = 2 * 10 ** 9


class StatCache:
    """Hashes of a folder's files, trusted while size, times and inode are the same.

    Small files are always read. So is a file that changed within two seconds of its hashing: its times could
    not tell a second change. A cache that cannot be read or written costs time, nothing else.
    """

    def __init__(self, folder):
        import hashlib

        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32] + ".json"
        self._path = os.path.join(home_folder(), "stat-cache", name)
        self._known = None
        self._fresh = {}
        self._changed = False

    def hashed(self, path, full_path, facts):
        """`[sha256, size]` of the file, whose size may be another than that of `facts` by now."""
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
