"""What the kernel says of the data a run was given. Runs on the Python of the page's run: 3.6 and newer."""

import os

from azureml.core import Run


def log_where_it_lies(folder):
    """Log two metrics of 1 or 0, both 0 when the data was downloaded for the run.

    `data_on_fuse`: it is read through a FUSE mount; `data_in_place`: it is read where it is stored on this machine.
    """
    on_fuse = mount_of(folder)[1].split(".")[0] == "fuse"
    run = Run.get_context()
    run.log("data_on_fuse", int(on_fuse))
    run.log("data_in_place", int(not on_fuse and not _holds(_folder_of_the_run(), os.path.realpath(folder))))


def mount_of(path, table="/proc/self/mountinfo"):
    """Return the mount point that a path lies on and the type of its file system, as this process sees them."""
    real = os.path.realpath(path)
    with open(table, encoding="utf-8", errors="surrogateescape") as lines:
        mounts = [_mount(line) for line in lines]
    holding = [mount for mount in mounts if _holds(mount[0], real)]
    return max(reversed(holding), key=lambda mount: len(mount[0]))  # the last of several at one point hides the others


def _mount(line):
    before, _, after = line.partition(" - ")
    return before.split(" ")[4], after.split(" ")[0]


def _holds(mount_point, path):
    return os.path.commonpath([mount_point, path]) == mount_point


def _folder_of_the_run():
    """Whatever is copied for a run lies in its working folder or beside it."""
    return os.path.dirname(os.path.realpath(os.getcwd()))
