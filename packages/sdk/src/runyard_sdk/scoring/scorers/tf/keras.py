"""Keras models in one file, .keras or .h5."""
from runyard_sdk.scoring.failure import InitFailed, one_line
from runyard_sdk.scoring.scorers.model_files import inside, only_one, with_suffix
from runyard_sdk.scoring.scorers.tf import saved_model
from runyard_sdk.scoring.scorers.tf.saved_model import Signature, Tensor

SUFFIXES = (".keras", ".h5", ".hdf5")


def find(model):
    """The file to serve, or None."""
    files = with_suffix(model, SUFFIXES)
    return only_one(model, files, "Keras model", "model.keras") if files else None


def load(start, model, path):
    """Load the Keras model; return {name: its one signature}."""
    import tensorflow as tf
    try:
        keras = tf.keras.models.load_model(path, compile=False)
    except Exception as error:
        raise InitFailed(
            "'%s' cannot be loaded by Keras of TensorFlow %s: %s" % (
                inside(model, path), tf.__version__, one_line(error)),
            "Save the whole model with model.save(...), not its weights alone; own layers need a scoring script.",
        ) from error
    inputs = {_alias(tensor.name): _tensor(tf, tensor) for tensor in keras.inputs}
    names = getattr(keras, "output_names", None) or [_alias(tensor.name) for tensor in keras.outputs]
    outputs = {name: _tensor(tf, tensor) for name, tensor in zip(names, keras.outputs)}
    return {saved_model.DEFAULT: Signature(inputs, outputs, _runner(keras))}


def _runner(keras):
    def run(arrays):
        results = keras.predict_on_batch(arrays if len(arrays) > 1 else arrays[0])
        return list(results) if isinstance(results, (list, tuple)) else [results]

    return run


def _alias(name):
    return name.split(":")[0]


def _tensor(tf, tensor):
    sizes = getattr(tensor.shape, "as_list", lambda: list(tensor.shape))()
    return Tensor(tensor.name, tf.as_dtype(tensor.dtype), sizes)
