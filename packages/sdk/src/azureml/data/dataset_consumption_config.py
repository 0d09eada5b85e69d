import re

from azureml.exceptions import UserErrorException

_NAME = r"^[A-Za-z_][A-Za-z0-9_]*\Z"
_MODES = ("direct", "mount", "download", "hdfs")


class DatasetConsumptionConfig(object):
    """A dataset as input `name` of a run: used directly, mounted or downloaded."""

    def __init__(self, name, dataset, mode="direct", path_on_compute=None):
        if mode not in _MODES:
            raise UserErrorException("mode must be one of %s, got %r." % (", ".join(map(repr, _MODES)), mode))
        self.dataset = dataset
        self.name = name
        self.mode = mode
        self.path_on_compute = path_on_compute

    @property
    def name(self):
        return self._name

    @name.setter
    def name(self, name):
        self._name = checked_name(name)

    @property
    def arg_val(self):
        return "DatasetConsumptionConfig:%s" % self.name

    def as_mount(self, path_on_compute=None):
        return self._with("mount", path_on_compute)

    def as_download(self, path_on_compute=None):
        return self._with("download", path_on_compute)

    def as_hdfs(self):
        from azureml._unsupported import unsupported
        raise unsupported("as_hdfs()", "There is no HDFS here, and no Spark that would read from it; use as_mount() or "
                          "as_download().")

    def __str__(self):
        return self.arg_val

    def _bind(self, inputs):
        inputs.add_input(self.name, self)
        return self.arg_val

    def _is_same(self, other):
        mine, its = self.dataset, other.dataset
        is_same = mine is its or getattr(mine, "id", None) is not None and mine.id == getattr(its, "id", None)
        return is_same and (self.mode, self.path_on_compute) == (other.mode, other.path_on_compute)

    def _to_definition(self, workspace):
        saved = self.dataset._saved(workspace)
        return {"dataLocation": {"dataset": {"id": saved.id, "name": saved.name,
                                             "version": None if saved.version is None else str(saved.version)}},
                "mechanism": self.mode.capitalize(), "pathOnCompute": self.path_on_compute, "overwrite": False,
                "environmentVariableName": self.name}

    def _with(self, mode, path_on_compute):
        if not self.dataset._can_be_files:
            raise UserErrorException("A tabular dataset can only be used directly, not with %r." % mode)
        return DatasetConsumptionConfig(self.name, self.dataset, mode, path_on_compute)


def checked_name(name):
    """Check the name of an input or output, which becomes an environment variable of the run."""
    if not isinstance(name, str) or not re.match(_NAME, name):
        raise UserErrorException("An input or output name is a letter or '_' followed by letters, digits and '_'; "
                                 "got %r." % (name,))
    return name
