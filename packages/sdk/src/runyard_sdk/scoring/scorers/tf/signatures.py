"""What a TensorFlow model can be asked: computations by name, each with named tensors in and out."""

PREDICT, CLASSIFY, REGRESS = "tensorflow/serving/predict", "tensorflow/serving/classify", "tensorflow/serving/regress"
DEFAULT = "serving_default"


class Tensor(object):
    """One input or output. `shape` is a list of sizes, None where any will do, or None itself for any rank."""

    def __init__(self, name, dtype, shape):
        """`dtype` is TensorFlow's; `name` such as 'x:0'."""
        self.name, self.dtype, self.shape = name, dtype, shape
        self.is_text = dtype.name == "string"

    def has_rows(self):
        """Whether the first dimension is a number of rows that the client chooses."""
        return self.shape is None or bool(self.shape) and self.shape[0] is None


class Signature(object):
    """`run` takes a list of arrays in the order of `inputs` and gives one for each of `outputs`."""

    def __init__(self, inputs, outputs, run, method=PREDICT, optional=()):
        """inputs, outputs: Tensor by alias. `optional`: aliases that a request may leave out, each with its value."""
        self.inputs, self.outputs, self.run, self.method = inputs, outputs, run, method
        self.optional = dict(optional)

    def has_rows(self):
        return all(tensor.has_rows() for tensor in list(self.inputs.values()) + list(self.outputs.values()))


def open_session(tf, graph):
    """A session of TensorFlow 1's kind. A GPU is taken as it fills, not as a whole."""
    settings = tf.ConfigProto(allow_soft_placement=True)
    settings.gpu_options.allow_growth = True
    return tf.Session(graph=graph, config=settings)


def session_run(session, inputs, outputs):
    """`run` of a signature in a session; inputs and outputs are lists of tensors of its graph."""
    # Parses names once: several times quicker than session.run for small models.
    call = session.make_callable([tensor.name for tensor in outputs], feed_list=[tensor.name for tensor in inputs])
    return lambda arrays: call(*arrays)


def version_1(tensorflow):
    """The names of TensorFlow 1, in either."""
    return getattr(getattr(tensorflow, "compat", None), "v1", None) or tensorflow


def shape_of(proto):
    """Of a TensorShapeProto."""
    if proto.unknown_rank:
        return None
    return [dim.size if dim.size >= 0 else None for dim in proto.dim]
