"""TensorFlow models without code, with the REST API of TensorFlow Serving."""
from runyard_sdk.scoring.failure import InitFailed
from runyard_sdk.scoring.scorers.tf import checkpoint, keras, saved_model
from runyard_sdk.scoring.scorers.model_files import all_files, listing, only_model
from runyard_sdk.scoring.scorers.tf.serving import ServingScorer


def load(start):
    """Load a SavedModel, a Keras file or a checkpoint with its meta graph, whichever is found first."""
    model = only_model(start)
    for source in (saved_model, keras, checkpoint):
        found = source.find(model)
        if found:
            return ServingScorer(start, model, source.load(start, model, found))
    raise InitFailed(
        "Model %s:%d holds no TensorFlow model; it holds: %s." % (
            model.name, model.version, listing(model, all_files(model)) or "nothing"),
        "Register the folder of a SavedModel (saved_model.pb and variables/), made by tf.saved_model.save or, in "
        "TensorFlow 1, tf.saved_model.simple_save.")
