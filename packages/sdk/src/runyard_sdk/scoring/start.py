import importlib
import os
import sys

from runyard_sdk.scoring.failure import InitFailed

_OWN = {"script": "runyard_sdk.scoring.scripts"}


class ServedModel(object):
    """A deployed model: `folder` is azureml-models/NAME/VERSION."""

    def __init__(self, name, version, folder):
        self.name, self.version, self.folder = name, int(version), folder

    @property
    def path(self):
        """Result of Model.get_model_path: the only entry of its folder, else the folder."""
        found = os.listdir(self.folder)
        return os.path.join(self.folder, found[0]) if len(found) == 1 else self.folder


class Start(object):
    """What a worker serves. Sentences appended to `notes` are shown to whoever deployed it."""

    def __init__(self, scorer, service="", entry_script="", app_root=".", models_root="", models=(),
                 requests_at_once=1, framework_version=""):
        self.scorer, self.service, self.entry_script = scorer, service, entry_script
        self.app_root, self.models_root = os.path.abspath(app_root), os.path.abspath(models_root or "azureml-models")
        self.models = [ServedModel(model["name"], model["version"], os.path.join(
            self.models_root, model["name"], str(model["version"]))) for model in models]
        self.requests_at_once, self.framework_version = max(1, int(requests_at_once)), framework_version
        self.notes = []

    @classmethod
    def of_facts(cls, facts):
        """Start from the JSON of an `S` frame; unknown fields of a newer gateway are ignored."""
        known = ("scorer", "service", "entry_script", "app_root", "models_root", "models", "requests_at_once",
                 "framework_version")
        return cls(**{name: facts[name] for name in known if facts.get(name) is not None})

    def prepare_process(self):
        """Set working folder, import paths and variables as a scoring script expects."""
        os.environ.update({
            "AML_APP_ROOT": self.app_root,
            "AZUREML_APP_ROOT": self.app_root,
            "AZUREML_ENTRY_SCRIPT": self.entry_script,
            "AZUREML_MODEL_DIR": self.models[0].folder if len(self.models) == 1 else self.models_root,
            "RUNYARD_MODELS_ROOT": self.models_root,
        })
        os.chdir(self.app_root)
        places = self._import_folders()
        sys.path[:] = places + [path for path in sys.path if path and path not in places]
        sys.argv[:] = [os.path.join(self.app_root, self.entry_script) if self.entry_script else self.app_root]

    def _import_folders(self):
        """Folder of the entry script, the source_directory (first part of its path), and the app root."""
        folders = os.path.dirname(self.entry_script).split("/")
        places = []
        for place in ("/".join(folders), folders[0], ""):
            path = os.path.normpath(os.path.join(self.app_root, place))
            if path not in places:
                places.append(path)
        return places


def load_scorer(start):
    """Load the scorer that `start` names; its errors are raised unchanged.

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
