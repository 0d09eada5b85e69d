"""TorchScript and torch.export programs without code, with the plain form of tensors."""

import itertools
import zipfile

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.failure import InitFailed, one_line
from runyard_sdk.scoring.scorers import tensors
from runyard_sdk.scoring.scorers.batches import RowsTogether, answer_in_groups
from runyard_sdk.scoring.scorers.bodies import json_object
from runyard_sdk.scoring.scorers.model_files import inside, only_model, only_one, with_suffix

SUFFIXES = (".pt", ".pt2", ".pth", ".ts", ".jit", ".torchscript")
HOW_TO_SAVE = ("Save the program with the weights: torch.jit.script(model).save('outputs/model.pt'), torch.jit.trace("
               "model, example).save('outputs/model.pt') or torch.export.save(torch.export.export(model, (example,)), "
               "'outputs/model.pt2').")
TYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
MOST_GUESSED = 4
ABOUT_TYPES = ("dtype", "scalar type", "Long", "Double", "Int", "expected m1 and m2", "integer")


def load(start):
    """Load the only program of the model, on the GPU if there is one."""
    import torch
    model = only_model(start)
    path = only_one(model, with_suffix(model, SUFFIXES), "PyTorch program", "model.pt or model.pt2")
    if _is_pickle(path):
        raise InitFailed("'%s' holds weights or a pickled module, not a program." % inside(model, path), HOW_TO_SAVE)
    try:
        program = load_program(torch, path)
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
        types = tensors.requested_types(body, self._program.names)
        arrays = [self._array(name, values[name], types[name]) for name in self._program.names]
        fits = tuple((array.dtype.str, array.shape[1:]) for array in arrays)
        return ("forward", any(types.values()), fits), arrays

    def _array(self, name, value, dtype):
        if dtype is not None and dtype not in TYPES:
            raise Refused(400, "dtype %s of input %s is not one of %s." % (
                dtype, name, ", ".join(TYPES)))
        array = tensors.array_of(name, value, dtype or self._program.types.get(name))
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
            raise Refused(400, error_text(error))


def _is_pickle(path):
    """Whether torch.save wrote the file, which then holds no code; a program does."""
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            return file.read(2) in (b"\x80\x02", b"\x80\x03", b"\x80\x04")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return any(name.endswith("/data.pkl") for name in names) and not any("/code/" in name for name in names)


def load_program(torch, path):
    if path.lower().endswith(".pt2"):
        return ExportedProgram(torch, torch.export.load(path))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return ScriptProgram(torch, torch.jit.load(path, map_location=device).eval())


def error_text(error):
    """The line of the message that says what is wrong, without the position in the program."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()] or [type(error).__name__]
    messages = [line for line in lines if line.startswith(("RuntimeError: ", "torch.jit.Error: "))]
    return messages[-1].partition(": ")[2] if messages else lines[0]


class Outputs(list):
    """Arrays, and the structure of tuples and dicts around them."""

    def __init__(self, torch, value):
        super(Outputs, self).__init__()
        self.is_plain = True
        self.structure = self._taken(torch, value)

    def _taken(self, torch, value):
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu()
            self.append((value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy())
            return _Slot(len(self) - 1)
        if isinstance(value, dict):
            return {key: self._taken(torch, one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._taken(torch, one) for one in value]
        self.is_plain = False  # a value that cannot be split by rows
        return value


class _Slot(object):
    def __init__(self, at):
        self.at = at


def filled(structure, arrays):
    """The structure with the arrays filled in."""
    if isinstance(structure, _Slot):
        return arrays[structure.at]
    if isinstance(structure, dict):
        return {key: filled(one, arrays) for key, one in structure.items()}
    if isinstance(structure, list):
        return [filled(one, arrays) for one in structure]
    return structure


class Program(object):
    """`names` of the inputs; `types` (numpy's) and `shapes` by name if known."""

    def __init__(self, torch, module, names, types=(), shapes=()):
        self._torch, self._module, self.names = torch, module, names
        self.types, self.shapes = dict(types), dict(shapes)
        self._last = None
        weights = itertools.chain(module.parameters(), module.buffers())
        self._device = next((one.device for one in weights), "cpu")

    def takes_rows(self):
        """Whether requests may be batched, as far as is known before trying."""
        return all(shape and shape[0] is None for shape in self.shapes.values()) and (
            self._last is None or self._last.is_plain)

    def structure(self, arrays):
        """Outputs in the structure that the program returns."""
        return filled(arrays.structure if isinstance(arrays, Outputs) else self._last.structure, arrays)

    def run(self, arrays, is_typed):
        """Outputs of the arrays. With `is_typed` the client has chosen the arrays' types, which are kept."""
        self._last = Outputs(self._torch, self._call(arrays))
        return self._last

    def _call(self, arrays):
        return self._module(*[self._torch.as_tensor(array, device=self._device) for array in arrays])


class ExportedProgram(Program):
    def __init__(self, torch, exported):
        nodes = {node.name: node.meta["val"] for node in exported.graph.nodes if node.op == "placeholder"}
        names = [name for name in exported.graph_signature.user_inputs if isinstance(name, str)]
        values = {name: nodes[name] for name in names if isinstance(nodes.get(name), torch.Tensor)}
        super(ExportedProgram, self).__init__(
            torch, exported.module(), names,
            {name: str(value.dtype).replace("torch.", "") for name, value in values.items()},
            {name: [size if isinstance(size, int) else None for size in value.shape] for name, value in values.items()})


class ScriptProgram(Program):
    """TorchScript does not declare the types of its inputs. Fractional numbers get the type of its weights; integers
    too if that runs, else int64. The types that worked are tried first from then on."""

    def __init__(self, torch, module):
        names = [one.name for one in module.forward.schema.arguments[1:] if not one.has_default_value()]
        super(ScriptProgram, self).__init__(torch, module, names)
        self._floats = next((one.dtype for one in module.parameters() if one.dtype.is_floating_point), torch.float32)
        self._whole = {}

    def run(self, arrays, is_typed):
        if is_typed:
            return super(ScriptProgram, self).run(arrays, is_typed)
        first_error = None
        for whole in self._guesses(arrays):
            try:
                outputs = super(ScriptProgram, self).run(self._converted(arrays, whole), is_typed)
            except RuntimeError as error:
                first_error = first_error or error
                if not any(word in str(error) for word in ABOUT_TYPES):
                    raise
            else:
                self._whole = dict(zip(self.names, whole))
                return outputs
        raise first_error

    def _guesses(self, arrays):
        """For each input, whether it stays an integer."""
        could_be = [array.dtype.kind in "iu" for array in arrays]
        learned = tuple(kind and self._whole.get(name, False) for name, kind in zip(self.names, could_be))
        yield learned
        if sum(could_be) <= MOST_GUESSED:
            for guess in itertools.product(*[(False, True) if kind else (False,) for kind in could_be]):
                if guess != learned:
                    yield guess

    def _converted(self, arrays, whole):
        return [self._torch.as_tensor(array) if keeps or array.dtype.kind == "b"
                else self._torch.as_tensor(array).to(self._floats) for array, keeps in zip(arrays, whole)]
