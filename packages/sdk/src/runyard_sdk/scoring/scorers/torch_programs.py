"""Programs of PyTorch as functions of numpy arrays."""
import itertools

TYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
MOST_GUESSED = 4
ABOUT_TYPES = ("dtype", "scalar type", "Long", "Double", "Int", "expected m1 and m2", "integer")


def load(torch, path):
    if path.lower().endswith(".pt2"):
        return ExportedProgram(torch, torch.export.load(path))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return ScriptProgram(torch, torch.jit.load(path, map_location=device).eval())


def said(error):
    """The line that says what is wrong, without where in the program that was."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()] or [type(error).__name__]
    told = [line for line in lines if line.startswith(("RuntimeError: ", "torch.jit.Error: "))]
    return told[-1].partition(": ")[2] if told else lines[0]


class Outputs(list):
    """Arrays, and the structure of tuples and dicts that they were given in."""

    def __init__(self, torch, value):
        super(Outputs, self).__init__()
        self.is_plain = True
        self.structure = self._taken(torch, value)

    def _taken(self, torch, value):
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu()
            self.append((value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy())
            return _Place(len(self) - 1)
        if isinstance(value, dict):
            return {key: self._taken(torch, one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._taken(torch, one) for one in value]
        self.is_plain = False  # a value that cannot be told apart by rows
        return value


class _Place(object):
    def __init__(self, at):
        self.at = at


def filled(structure, arrays):
    """The structure with the arrays in their places."""
    if isinstance(structure, _Place):
        return arrays[structure.at]
    if isinstance(structure, dict):
        return {key: filled(one, arrays) for key, one in structure.items()}
    if isinstance(structure, list):
        return [filled(one, arrays) for one in structure]
    return structure


class Program(object):
    """`names` of the inputs; `types` (numpy's) and `shapes` by name where the program tells them."""

    def __init__(self, torch, module, names, types=(), shapes=()):
        self._torch, self._module, self.names = torch, module, names
        self.types, self.shapes = dict(types), dict(shapes)
        self._last = None
        weights = itertools.chain(module.parameters(), module.buffers())
        self._device = next((one.device for one in weights), "cpu")

    def takes_rows(self):
        """Whether requests may be put together, as far as is known before trying."""
        return all(shape and shape[0] is None for shape in self.shapes.values()) and (
            self._last is None or self._last.is_plain)

    def structure(self, arrays):
        """The outputs in the structure that the program gives them."""
        return filled(arrays.structure if isinstance(arrays, Outputs) else self._last.structure, arrays)

    def run(self, arrays, is_typed):
        """Outputs. With `is_typed` the arrays' types are the client's own words, and are kept."""
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
    """TorchScript does not tell the types of its inputs. Numbers with a fraction become what its weights are; whole
    ones too where that runs, else int64. What ran is tried first from then on."""

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
        """For each input whether it stays whole."""
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
