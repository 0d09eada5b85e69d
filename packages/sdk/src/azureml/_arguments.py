"""Arguments of a script: what the user gave becomes text, and the data named in it becomes inputs of the run."""
from azureml.exceptions import UserErrorException


class Inputs(object):
    """The data that a run's arguments and inputs name. Objects that mean data bind themselves to it."""

    def __init__(self):
        self.references = {}
        self.data = {}
        self.outputs = {}

    def add_input(self, name, use):
        """UserErrorException where the name stands for another dataset, or the same one brought otherwise."""
        present = self.data.setdefault(name, use)
        if present is not use and not present._is_same(use):
            raise UserErrorException("Two inputs of the run are called %r. Give each a name of its own, with "
                                     "as_named_input('name')." % name)

    def add_output(self, name, output):
        if self.outputs.setdefault(name, output) is not output:
            raise UserErrorException("Two outputs of the run are called %r. Give each a name of its own." % name)

    def add_all(self, given):
        """Bind each of the `inputs` of an estimator."""
        for value in given or []:
            bound_text(value, self)


def bound_text(value, inputs):
    """The text of one argument; a DataReference, dataset input or output leaves its placeholder here."""
    bind = getattr(value, "_bind", None)
    return str(value) if bind is None else bind(inputs)


def from_list(arguments, inputs):
    """The texts of ScriptRunConfig's `arguments`."""
    return [bound_text(value, inputs) for value in arguments or []]


def from_params(script_params, inputs):
    """The texts of an estimator's `script_params`: key, value; '' or None leave the key alone, a list is spread."""
    texts = []
    for key, value in (script_params or {}).items():
        texts.append(str(key))
        if value is None or (isinstance(value, str) and value == ""):
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        texts.extend(bound_text(one, inputs) for one in values)
    return texts
