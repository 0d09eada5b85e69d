"""How the processes of a run are spread over nodes: which settings say so, and what they may hold."""
from azureml.exceptions import UserErrorException

_MPI = ("mpi", "intelmpi", "openmpi")
_PARAMETER_SERVER = ("parameterserver",)
_TORCH = ("gloo", "nccl")


def check_count(argument, value, error=UserErrorException, at_least=1):
    """Raise `error`, naming the user's argument, unless the value is a whole number that large."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise error("%s must be a whole number of at least %d, got %r." % (argument, at_least, value))


def check_job(job, error=UserErrorException):
    """Raise `error` where a configuration of a distributed job holds a count that cannot be."""
    for argument in ("node_count", "process_count_per_node", "worker_count"):
        if hasattr(job, argument):
            check_count(argument, getattr(job, argument), error)
    if hasattr(job, "parameter_server_count"):
        # None at all is how MultiWorkerMirroredStrategy is run.
        check_count("parameter_server_count", job.parameter_server_count, error, at_least=0)
    if getattr(job, "process_count", None) is not None:
        check_count("process_count", job.process_count, error)


def check_run_config(run_config, error=UserErrorException):
    """Raise `error` where the counts that the communicator goes by cannot be; the others are left alone."""
    check_count("node_count", run_config.node_count, error)
    communicator = str(run_config.communicator or "").lower()
    if communicator in _MPI:
        check_count("process_count_per_node", run_config.mpi.process_count_per_node, error)
    elif communicator in _PARAMETER_SERVER:
        check_job(run_config.tensorflow, error)
    elif communicator in _TORCH:
        check_job(run_config.pytorch, error)
