"""TorchScript and torch.export programs without code, over the plain form of tensors."""
import zipfile

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.failure import InitFailed, one_line
from runyard_sdk.scoring.scorers import tensors, torch_programs
from runyard_sdk.scoring.scorers.batching import RowsTogether, answer_in_groups
from runyard_sdk.scoring.scorers.bodies import json_object
from runyard_sdk.scoring.scorers.model_files import inside, only_model, only_one, with_suffix

SUFFIXES = (".pt", ".pt2", ".pth", ".ts", ".jit", ".torchscript")
HOW_TO_SAVE = ("Save the program with the weights: torch.jit.script(model).save('outputs/model.pt'), torch.jit.trace("
               "model, example).save('outputs/model.pt') or torch.export.save(torch.export.export(model, (example,)), "
               "'outputs/model.pt2').")


def load(start):
    """The one program of the model, on the GPU where there is one."""
    import torch
    model = only_model(start)
    path = only_one(model, with_suffix(model, SUFFIXES), "PyTorch program", "model.pt or model.pt2")
    if _is_pickle(path):
        raise InitFailed("'%s' holds weights or a pickled module, not a program." % inside(model, path), HOW_TO_SAVE)
    try:
        program = torch_programs.load(torch, path)
    except Exception as error:
        raise InitFailed(
            "'%s' cannot be loaded by PyTorch %s: %s" % (inside(model, path), torch.__version__, one_line(error)),
            "Register the model with the model_framework_version that saved it. %s" % HOW_TO_SAVE) from error
    return TorchScorer(torch, program)


class TorchScorer(object):
    batches = True

    def __init__(self, torch, program):
        self._torch, self._program = torch, program
        self._rows = RowsTogether(self._compute)
        self.schema = tensors.schema(program.names, program.shapes, program.types)

    def score(self, requests):
        with self._torch.no_grad():
            return answer_in_groups(requests, self._read, self._answer)

    def _read(self, request):
        body = json_object(request.body, tensors.EXAMPLE)
        values = tensors.read_values(body, self._program.names)
        wishes = tensors.wished_types(body, self._program.names)
        arrays = [self._array(name, values[name], wishes[name]) for name in self._program.names]
        fits = tuple((array.dtype.str, array.shape[1:]) for array in arrays)
        return ("forward", any(wishes.values()), fits), arrays

    def _array(self, name, value, wish):
        if wish is not None and wish not in torch_programs.TYPES:
            raise Refused(400, "dtype %s of input %s is not one of %s." % (
                wish, name, ", ".join(torch_programs.TYPES)))
        array = tensors.array_of(name, value, wish or self._program.types.get(name))
        if name in self._program.shapes:
            tensors.check_shape(name, array, self._program.shapes[name])
        return array

    def _answer(self, key, jobs):
        if self._program.takes_rows():
            outputs = self._rows.outputs(key, jobs)
        else:
            outputs = [self._compute(key, job) for job in jobs]
        return [tensors.write_outputs(self._program.structure(arrays)) for arrays in outputs]

    def _compute(self, key, arrays):
        try:
            return self._program.run(arrays, is_typed=key[1])
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            raise Refused(400, torch_programs.said(error))


def _is_pickle(path):
    """What torch.save writes has no code in it; a program has."""
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            return file.read(2) in (b"\x80\x02", b"\x80\x03", b"\x80\x04")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return any(name.endswith("/data.pkl") for name in names) and not any("/code/" in name for name in names)
