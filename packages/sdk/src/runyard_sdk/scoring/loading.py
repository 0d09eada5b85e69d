import importlib

from runyard_sdk.scoring.failure import InitFailed

_OWN = {"script": "runyard_sdk.scoring.scripts.scorer"}


def load_scorer(start):
    """The loaded scorer that `start` names. Whatever goes wrong in it is raised as it is.

    A scorer has `score(requests)` -> one answer for each, and may have `batches`, `wants_heads`, `methods`, `schema`
    and `notes`.
    """
    name = _OWN.get(start.scorer) or "runyard_sdk.scoring.scorers." + start.scorer.replace("-", "_")
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if error.name != name:
            raise
        raise InitFailed("This version of Runyard's SDK has no scorer %r." % start.scorer,
                         "Deploy with an InferenceConfig, whose entry_script loads the model.")
    return module.load(start)
