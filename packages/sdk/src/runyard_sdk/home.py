import os


def home_folder():
    """The folder of this user's service: `RUNYARD_HOME`, else `~/.runyard`. It need not exist."""
    return os.path.abspath(os.environ.get("RUNYARD_HOME") or os.path.join(os.path.expanduser("~"), ".runyard"))


def ensured_home():
    home = home_folder()
    os.makedirs(home, mode=0o700, exist_ok=True)
    return home


def host_name():
    return os.uname().nodename


def boot_id():
    """The kernel's boot id, which tells a file of this boot from one left by another; "" where there is none."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as source:
            return source.read().strip()
    except OSError:
        return ""
