"""Chainer models without code: weights in an .npz file, and next to it model.py, which defines the network.

model.py has a function create_model(), or a class Model, that is called without arguments and returns the chainer.Link
whose weights were saved. It may have predict(model, *arrays), which is called in place of the model and whose result is
the answer. The weights may be those of a Classifier around the network, or a trainer's snapshot.
"""
import os
import sys

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.failure import InitFailed, one_line
from runyard_sdk.scoring.scorers import tensors
from runyard_sdk.scoring.scorers.batches import RowsTogether, answer_in_groups
from runyard_sdk.scoring.scorers.bodies import json_object
from runyard_sdk.scoring.scorers.model_files import all_files, inside, only_model, only_one, with_suffix

DEFINITION = "model.py"
HOW_TO_DEFINE = "Put model.py with a function create_model(), which gives the network, beside the .npz file."
INSIDE_OTHERS = ("", "predictor/", "updater/model:main/predictor/", "updater/model:main/")


def load(start):
    """Network of model.py with the weights of the .npz file."""
    import chainer
    model = only_model(start)
    weights = only_one(model, with_suffix(model, [".npz"]), "Chainer model (.npz)",
                       "model.npz with chainer.serializers.save_npz('outputs/model/model.npz', model)")
    definitions = [path for path in all_files(model) if os.path.basename(path) == DEFINITION]
    definition = _definition(only_one(model, definitions, "model.py", "model.py with a function create_model()"))
    network = _network(definition)
    _fill(chainer, network, weights, inside(model, weights))
    if chainer.backends.cuda.available:
        network.to_gpu()
    predict = getattr(definition, "predict", None) or (lambda link, *arrays: link(*arrays))
    return ChainerScorer(chainer, network, predict)


class ChainerScorer(object):
    batches = True

    def __init__(self, chainer, network, predict):
        self._chainer, self._network, self._predict = chainer, network, predict
        self._rows = RowsTogether(self._compute)
        self._gives_several = self._takes_whole = False
        self.schema = tensors.schema(["data"])

    def score(self, requests):
        return answer_in_groups(requests, self._read, self._answer)

    def _read(self, request):
        body = json_object(request.body, tensors.EXAMPLE)
        inputs = body.get("inputs")
        # Arguments of a network have no names: those of an object are passed in its order.
        names = list(inputs) if isinstance(inputs, dict) else ["input %d" % at for at in range(
            len(inputs) if isinstance(inputs, list) else 1)]
        values, types = tensors.read_values(body, names), tensors.requested_types(body, names)
        arrays = [tensors.array_of(name, values[name], types[name]) for name in names]
        fits = tuple((array.dtype.str, array.shape[1:]) for array in arrays)
        return ("call", any(types.values()), fits), arrays

    def _answer(self, key, jobs):
        outputs = self._rows.outputs(key, jobs)
        return [tensors.write_outputs(arrays if self._gives_several else arrays[0]) for arrays in outputs]

    def _compute(self, key, arrays):
        wrong_type = self._chainer.utils.type_check.InvalidType
        try:
            if key[1]:
                result = self._call(arrays)
            else:
                result = self._call_as_numbers(arrays, wrong_type)
        except (ValueError, TypeError, IndexError, wrong_type) as error:
            raise Refused(400, " ".join(str(error).split()))
        self._gives_several = isinstance(result, (list, tuple))
        return [_array(self._chainer, one) for one in (result if self._gives_several else [result])]

    def _call_as_numbers(self, arrays, wrong_type):
        """JSON does not distinguish 1 and 1.0: integers are passed only where the network needs them."""
        narrow = [_narrow(array, self._takes_whole) for array in arrays]
        try:
            return self._call(narrow)
        except wrong_type:
            other = [_narrow(array, not self._takes_whole) for array in arrays]
            if [one.dtype for one in other] == [one.dtype for one in narrow]:
                raise
            result = self._call(other)
            self._takes_whole = not self._takes_whole
            return result

    def _call(self, arrays):
        with self._chainer.using_config("train", False), self._chainer.no_backprop_mode():
            return self._predict(self._network, *[self._network.xp.asarray(array) for array in arrays])


def _narrow(array, keeps_whole):
    """Chainer computes with 32 bits."""
    if array.dtype.kind in "iu":
        return array.astype("int32" if keeps_whole else "float32")
    return array.astype("float32") if array.dtype.kind == "f" else array


def _array(chainer, value):
    value = value.array if isinstance(value, chainer.Variable) else value
    return chainer.backends.cuda.to_cpu(value) if hasattr(value, "shape") else value


def _definition(path):
    from importlib.util import module_from_spec, spec_from_file_location
    sys.path.insert(0, os.path.dirname(path))  # for the modules next to it
    spec = spec_from_file_location("model", path)
    module = sys.modules["model"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _network(definition):
    make = getattr(definition, "create_model", None) or getattr(definition, "Model", None)
    if not callable(make):
        raise InitFailed("model.py has neither a function create_model() nor a class Model.", HOW_TO_DEFINE)
    try:
        return make()
    except TypeError as error:
        raise InitFailed("%s of model.py cannot be called without arguments: %s" % (
            getattr(make, "__name__", "create_model"), error), HOW_TO_DEFINE) from error


def _fill(chainer, network, path, name):
    import numpy
    with numpy.load(path) as file:
        names = set(file.files)
    wanted = [key.lstrip("/") for key, _ in network.namedparams()]
    for prefix in INSIDE_OTHERS:
        if all(prefix + key in names for key in wanted):
            break
    else:
        missing = [key for key in wanted if key not in names]
        raise InitFailed(
            "'%s' lacks %s, which the network of model.py has; it holds %s." % (
                name, ", ".join(missing[:5]), ", ".join(sorted(names)[:8])),
            "Save the weights of the network that create_model() gives: chainer.serializers.save_npz(path, model).")
    try:
        chainer.serializers.load_npz(path, network, path=prefix)
    except Exception as error:
        raise InitFailed("'%s' does not fit the network of model.py: %s" % (name, one_line(error)),
                         "Give create_model() the sizes that the model was trained with.") from error
