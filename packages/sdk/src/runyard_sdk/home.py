import os
import stat


def home_folder():
    """Folder of this user's service: `RUNYARD_HOME`, else `~/.runyard`. It need not exist."""
    return os.path.abspath(os.environ.get("RUNYARD_HOME") or os.path.join(os.path.expanduser("~"), ".runyard"))


def ensured_home():
    """Create the folder if needed. Raises ServiceUnavailable where it cannot be this user's home."""
    from runyard_sdk.errors import ServiceUnavailable

    home = home_folder()
    refusal = why_not_ours(home)
    if refusal:
        raise ServiceUnavailable(refusal[0], hint=refusal[1])
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
    except OSError as problem:
        raise ServiceUnavailable("The home {} cannot be made: {}.".format(home, problem.strerror), hint=ANOTHER_HOME)
    return home


ANOTHER_HOME = "Set RUNYARD_HOME to a folder of your own."


def why_not_ours(home):
    """(problem, hint) if the folder must not be used as this user's home; None if it may, or does not exist.

    Whoever owns the folder or a link to it, or may replace it, could read every token in it and run code as its user.
    """
    if not hasattr(os, "geteuid"):
        return None
    try:
        for name, found in (("home", os.stat(home)), ("link", os.lstat(home))):
            if found.st_uid != os.geteuid() and not (name == "link" and found.st_uid == 0):
                return _of_another(name, home, found.st_uid)
    except FileNotFoundError:
        pass
    except PermissionError:
        return ("The home {} cannot be reached as {}: permission denied.".format(home, _user(os.geteuid())),
                ANOTHER_HOME)
    except OSError as problem:
        return "The home {} cannot be used: {}.".format(home, problem.strerror), ANOTHER_HOME
    return _replaceable(home)


def home_identity(home):
    """Identifier that differs between a folder and a copy of it, on this machine; None if it does not exist."""
    try:
        found = os.stat(home)
    except OSError:
        return None
    return "{}:{}".format(found.st_dev, found.st_ino)


def is_of_home(facts, home):
    """Whether a service.json was written for this home, not for one it was copied from."""
    return facts.get("home_id") in (None, home_identity(home))


def host_name():
    return os.uname().nodename


def boot_id():
    """The kernel's boot id, to recognise files left by another boot; "" if there is none."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as source:
            return source.read().strip()
    except OSError:
        return ""


def private(path, flags):
    """`opener` for `open()`: a new file is readable by its owner only."""
    return os.open(path, flags, 0o600)


def _of_another(what, home, uid):
    owner = _user(uid)
    which = "The home {}" if what == "home" else "The link at {}"
    name = owner.split(" ")[0] if "(" in owner else "#{}".format(uid)
    return ("{} belongs to {}, and you are {}.".format(which.format(home), owner, _user(os.geteuid())),
            "Run this as {} (sudo -u {} ...), or set RUNYARD_HOME to a folder of your own.".format(name, name))


def _replaceable(home):
    folder = os.path.dirname(os.path.realpath(home))
    while True:
        try:
            mode = os.stat(folder).st_mode
        except OSError:
            mode = 0
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return ("The home {} lies below {}, which every user of this machine may write to: another could put a "
                    "folder in its place.".format(home, folder),
                    "Run: chmod o-w {}, or set RUNYARD_HOME to a folder of your own.".format(folder))
        if os.path.dirname(folder) == folder:
            return None
        folder = os.path.dirname(folder)


def _user(uid):
    import pwd

    try:
        return "{} (uid {})".format(pwd.getpwuid(uid).pw_name, uid)
    except KeyError:
        return "uid {}".format(uid)
