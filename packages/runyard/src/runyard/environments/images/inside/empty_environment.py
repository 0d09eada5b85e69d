"""Replaces the content of a folder by an empty virtual environment. Arguments: FOLDER PYTHON MINOR VERSION.

Prints the platform.
"""

import os
import platform
import shutil
import sys


def main(folder: str, python: str, minor: str, version: str) -> None:
    for name in os.listdir(folder):
        there = os.path.join(folder, name)
        if os.path.isdir(there) and not os.path.islink(there):
            shutil.rmtree(there)
        else:
            os.remove(there)
    os.makedirs(os.path.join(folder, "bin"))
    os.makedirs(os.path.join(folder, "lib", "python" + minor, "site-packages"))
    os.symlink("lib", os.path.join(folder, "lib64"))
    for name, target in (("python", python), ("python3", "python"), ("python" + minor, "python")):
        os.symlink(target, os.path.join(folder, "bin", name))
    with open(os.path.join(folder, "pyvenv.cfg"), "w") as settings:
        settings.write("home = " + os.path.dirname(python) + "\n")
        settings.write("include-system-site-packages = false\nversion = " + version + "\n")
    print(platform.system().lower(), platform.machine(), *platform.libc_ver())


if __name__ == "__main__":
    main(*sys.argv[1:])
