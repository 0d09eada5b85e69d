import os
import sys


class ServedModel(object):
    """A model beside the code: `folder` is its azureml-models/NAME/VERSION."""

    def __init__(self, name, version, folder):
        self.name, self.version, self.folder = name, int(version), folder

    @property
    def path(self):
        """What Model.get_model_path says of it: the one thing that lies in its folder, else the folder."""
        found = os.listdir(self.folder)
        return os.path.join(self.folder, found[0]) if len(found) == 1 else self.folder


class Start(object):
    """What a worker is to serve. Sentences appended to `notes` go to whoever deployed it."""

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
        """From the JSON of an `S` frame; what a newer gateway adds is ignored."""
        known = ("scorer", "service", "entry_script", "app_root", "models_root", "models", "requests_at_once",
                 "framework_version")
        return cls(**{name: facts[name] for name in known if facts.get(name) is not None})

    def take_place(self):
        """Make this process what a scoring script expects: its folder, import paths and variables."""
        os.environ.update({
            "AML_APP_ROOT": self.app_root,
            "AZUREML_APP_ROOT": self.app_root,
            "AZUREML_ENTRY_SCRIPT": self.entry_script,
            "AZUREML_MODEL_DIR": self.models[0].folder if len(self.models) == 1 else self.models_root,
            "RUNYARD_MODELS_ROOT": self.models_root,
        })
        os.chdir(self.app_root)
        places = self._import_places()
        sys.path[:] = places + [path for path in sys.path if path and path not in places]
        sys.argv[:] = [os.path.join(self.app_root, self.entry_script) if self.entry_script else self.app_root]

    def _import_places(self):
        """The entry script's folder, the source_directory, which is the first part of its path, and the app root."""
        folders = os.path.dirname(self.entry_script).split("/")
        places = []
        for place in ("/".join(folders), folders[0], ""):
            path = os.path.normpath(os.path.join(self.app_root, place))
            if path not in places:
                places.append(path)
        return places
