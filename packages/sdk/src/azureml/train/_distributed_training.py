"""Distributed training of estimators: by name (distributed_backend) or by object (distributed_training)."""
from azureml._run_definition import check_count, check_job
from azureml.core.runconfig import MpiConfiguration, TensorflowConfiguration
from azureml.exceptions import TrainingException


class _DistributedTraining(object):
    _communicator = None
    _framework = None

    def validate(self, estimator_name):
        """Raises TrainingException where this estimator does not support this distribution."""
        check_supported(estimator_name, self)

    def _apply(self, run_config, settings):
        run_config.communicator, run_config.framework = self._communicator, self._framework


class Mpi(_DistributedTraining):
    _communicator, _framework = "Mpi", "python"

    def __init__(self, process_count_per_node=1):
        self.process_count_per_node = process_count_per_node

    def _apply(self, run_config, settings):
        super(Mpi, self)._apply(run_config, settings)
        run_config.mpi.process_count_per_node = _agreed("process_count_per_node", self, settings)


class ParameterServer(_DistributedTraining):
    _communicator, _framework = "ParameterServer", "tensorflow"

    def __init__(self, worker_count=1, parameter_server_count=1):
        self.worker_count = worker_count
        self.parameter_server_count = parameter_server_count

    def _apply(self, run_config, settings):
        super(ParameterServer, self)._apply(run_config, settings)
        run_config.tensorflow = _tasks(self, settings)


class Gloo(_DistributedTraining):
    _communicator, _framework = "Gloo", "pytorch"

    def __init__(self):
        pass


class Nccl(_DistributedTraining):
    _communicator, _framework = "Nccl", "pytorch"

    def __init__(self):
        pass


def _apply_mpi(run_config, settings, configuration=None):
    run_config.communicator, run_config.framework = "IntelMpi", "Python"
    run_config.mpi.process_count_per_node = _agreed(
        "process_count_per_node", configuration or MpiConfiguration(), settings)


def _apply_parameter_server(run_config, settings, configuration=None):
    run_config.communicator, run_config.framework = "ParameterServer", "TensorFlow"
    run_config.tensorflow = _tasks(configuration or TensorflowConfiguration(), settings)


def _apply_torch(name):
    def apply(run_config, settings):
        run_config.communicator, run_config.framework = name, "PyTorch"
    return apply


_BY_NAME = {"mpi": _apply_mpi, "ps": _apply_parameter_server, "gloo": _apply_torch("gloo"),
            "nccl": _apply_torch("nccl")}
_MPI = (Mpi, MpiConfiguration)
_SUPPORTED = {
    "Estimator": (("mpi",), _MPI + (ParameterServer, Gloo, Nccl)),
    "TensorFlow": (("mpi", "ps"), _MPI + (ParameterServer, TensorflowConfiguration)),
    "PyTorch": (("mpi", "gloo", "nccl"), _MPI + (Gloo, Nccl)),
    "Chainer": (("mpi",), _MPI),
    "SKLearn": ((), ()),
}


def check_supported(estimator_name, backend):
    names, classes = _SUPPORTED.get(estimator_name, _SUPPORTED["Estimator"])
    known = backend.lower() in names if isinstance(backend, str) else isinstance(backend, classes)
    if not known:
        raise TrainingException("%s cannot be distributed with %r. It takes %s." % (
            estimator_name, backend if isinstance(backend, str) else type(backend).__name__,
            ", ".join([repr(name) for name in names] + [kind.__name__ for kind in classes]) or "no distribution"))


def distribute(estimator_name, run_config, settings):
    """Set the requested distribution in the run configuration."""
    backend = settings.get("distributed_training") or settings.get("distributed_backend")
    if settings.get("distributed_training") and settings.get("distributed_backend"):
        raise TrainingException("distributed_backend is the old name of distributed_training: give one of them.")
    _check_counts(settings, backend)
    run_config.node_count = settings["node_count"]
    if not backend:
        return
    check_supported(estimator_name, backend)
    if isinstance(backend, str):
        _BY_NAME[backend.lower()](run_config, settings)
        return
    check_job(backend, TrainingException)
    if isinstance(backend, MpiConfiguration):
        run_config.node_count = _agreed("node_count", backend, settings)
        _apply_mpi(run_config, settings, backend)
    elif isinstance(backend, TensorflowConfiguration):
        _apply_parameter_server(run_config, settings, backend)
    else:
        backend._apply(run_config, settings)


def _check_counts(settings, backend):
    for argument in ("node_count", "process_count_per_node", "worker_count", "parameter_server_count"):
        if argument in settings:
            check_count(argument, settings[argument], TrainingException,
                        at_least=0 if argument == "parameter_server_count" else 1)
    for argument in ("node_count", "process_count_per_node"):
        if settings[argument] > 1 and not backend:
            raise TrainingException("%s=%d needs distributed_training, which says how the processes work together, "
                                    "for example Mpi()." % (argument, settings[argument]))


def _tasks(configuration, settings):
    return TensorflowConfiguration(_agreed("worker_count", configuration, settings),
                                   _agreed("parameter_server_count", configuration, settings))


def _agreed(argument, configuration, settings):
    """Count from the estimator's argument and the distributed_training object; 1, the default of both, defers to the
    other."""
    own, named = settings.get(argument, 1), getattr(configuration, argument)
    if own != 1 and named not in (1, own):
        raise TrainingException("%s=%d and %s(%s=%d) say different things: give it in one place." % (
            argument, own, type(configuration).__name__, argument, named))
    return named if own == 1 else own
