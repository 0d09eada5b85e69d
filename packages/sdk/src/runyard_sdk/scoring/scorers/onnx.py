"""ONNX models without code, by onnxruntime: the JSON of ONNX Runtime Server, and the plain form of tensors."""
from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.failure import InitFailed, one_line
from runyard_sdk.scoring.scorers import onnx_json, tensors
from runyard_sdk.scoring.scorers.batching import RowsTogether, answer_in_groups
from runyard_sdk.scoring.scorers.bodies import json_object
from runyard_sdk.scoring.scorers.model_files import inside, only_model, only_one, with_suffix


def load(start):
    """The one .onnx file of the model, in a session on the GPU where onnxruntime has one, else on the CPU."""
    import onnxruntime
    model = only_model(start)
    path = only_one(model, with_suffix(model, [".onnx", ".ort"]), "ONNX model", "model.onnx")
    try:
        session = onnxruntime.InferenceSession(path, providers=onnxruntime.get_available_providers())
    except TypeError:  # releases before 1.3 choose for themselves
        session = onnxruntime.InferenceSession(path)
    except Exception as error:
        raise InitFailed(
            "'%s' cannot be loaded by onnxruntime %s: %s" % (
                inside(model, path), onnxruntime.__version__, one_line(error)),
            "Check the file with onnx.checker.check_model. Of a model with weights in files of their own, register the "
            "whole folder.") from error
    return OnnxScorer(session)


class OnnxScorer(object):
    batches = True

    def __init__(self, session):
        self._session = session
        self._inputs = {one.name: one for one in session.get_inputs()}
        self._outputs = [one.name for one in session.get_outputs()]
        self._rows = RowsTogether(self._compute)
        self._has_rows = all(_has_rows(one) for one in session.get_inputs() + session.get_outputs())
        self.schema = tensors.schema(
            list(self._inputs), {name: list(one.shape) for name, one in self._inputs.items()},
            {name: onnx_json.numpy_type(one.type) for name, one in self._inputs.items()})

    def score(self, requests):
        return answer_in_groups(requests, self._read, self._answer)

    def _read(self, request):
        body = json_object(request.body, tensors.EXAMPLE)
        wanted = onnx_json.wanted_outputs(body, self._outputs)
        is_typed = onnx_json.is_typed(body)
        if is_typed:
            arrays = onnx_json.read_inputs(body["inputs"], list(self._inputs))
        else:
            values = tensors.read_values(body, list(self._inputs))
            arrays = [tensors.array_of(name, values[name], onnx_json.numpy_type(one.type))
                      for name, one in self._inputs.items()]
        for (name, one), array in zip(self._inputs.items(), arrays):
            tensors.check_shape(name, array, one.shape)
        fits = tuple((array.dtype.str, array.shape[1:]) for array in arrays)
        return (wanted, is_typed, fits), arrays

    def _answer(self, key, jobs):
        wanted, is_typed, _ = key
        if self._has_rows:
            outputs = self._rows.outputs(key, jobs)
        else:
            outputs = [self._compute(key, job) for job in jobs]
        write = onnx_json.write_outputs if is_typed else tensors.write_outputs
        return [write(dict(zip(wanted, values))) for values in outputs]

    def _compute(self, key, arrays):
        try:
            return self._session.run(list(key[0]), dict(zip(self._inputs, arrays)))
        except Exception as error:
            # What the model makes of these inputs; onnxruntime has no common class for its errors.
            if type(error).__name__ in ("InvalidArgument", "RuntimeException", "Fail", "RuntimeError"):
                raise Refused(400, str(error))
            raise


def _has_rows(argument):
    """Whether its first dimension is free, and rows can be told apart in it."""
    return argument.type.startswith("tensor(") and bool(argument.shape) and not isinstance(argument.shape[0], int)
