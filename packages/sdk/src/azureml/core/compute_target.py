from azureml.exceptions import ComputeTargetException, UserErrorException  # noqa: F401


class AbstractComputeTarget(object):
    """A compute target that is not registered in the workspace."""

    def __init__(self, compute_target_type, name):
        self._type = compute_target_type
        self._name = name

    @property
    def type(self):
        return self._type

    @property
    def name(self):
        return self._name

    @staticmethod
    def deserialize_from_dict(compute_target_name, compute_target_dict):
        return AbstractComputeTarget(compute_target_dict.get("type"), compute_target_name)

    def __repr__(self):
        return "%s(name=%r)" % (type(self).__name__, self.name)


class LocalTarget(AbstractComputeTarget):
    """This machine."""

    def __init__(self):
        super(LocalTarget, self).__init__("local", "local")


def attach_legacy_compute_target(experiment, source_directory, compute_target):
    raise _legacy()


def remove_legacy_compute_target(experiment, source_directory, compute_target_name):
    raise _legacy()


def prepare_compute_target(experiment, source_directory, run_config):
    """Nothing to do: environments are built when a run needs them."""


def is_compute_target_prepared(experiment, source_directory, run_config):
    return True


def _legacy():
    from azureml._unsupported import unsupported
    return unsupported("A compute target file of 2018", "Create the target with ComputeTarget.create.")
