"""Every rank of an MPI run of CNTK says who it is, and whether it runs in an image."""

import os

import cntk

from azureml.core import Run


def is_in_image():
    """Whether this process sees another root folder than the machine that the page was run on."""
    with open("root_of_machine.txt") as file:
        return file.read() != str(tuple(os.stat("/"))[1:3])


run = Run.get_context()
run.log("in_image", int(is_in_image()))
run.log("rank", cntk.Communicator.rank())
cntk.Communicator.finalize()
