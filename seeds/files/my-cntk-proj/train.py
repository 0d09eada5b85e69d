"""Every rank of an MPI run of CNTK says who it is."""

import cntk

from azureml.core import Run

Run.get_context().log("rank", cntk.Communicator.rank())
cntk.Communicator.finalize()
