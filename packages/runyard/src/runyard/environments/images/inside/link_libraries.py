"""Links shared libraries of the image into a folder under other names. Arguments: FOLDER OLD=LIBRARY ...

Exits with 1 and prints the name of a library that is missing.
"""

import glob
import os
import sys

SYSTEM = (
    "/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*", "/usr/lib/*/openmpi/lib", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
    "/usr/lib64/openmpi/lib", "/usr/local/lib", "/opt/*/lib", "/opt/*/lib64",
)  # fmt: skip


def main(folder: str, *links: str) -> None:
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    for program_folder in filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep)):
        folders += [os.path.join(os.path.dirname(program_folder), name) for name in ("lib", "lib64")]
    for pattern in SYSTEM:
        folders += sorted(glob.glob(pattern))
    os.makedirs(folder)
    for link in links:
        old, _, library = link.partition("=")
        found = [os.path.join(parent, library) for parent in filter(os.path.isabs, folders)]
        found = [path for path in found if os.path.exists(path)]
        if not found:
            sys.exit(library)
        os.symlink(found[0], os.path.join(folder, old))


if __name__ == "__main__":
    main(*sys.argv[1:])
