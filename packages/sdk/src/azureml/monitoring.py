import sys

_SAID = "Data collection has no effect in Runyard: what ModelDataCollector.collect() is given is not kept."


class ModelDataCollector(object):
    """Accepted so that scoring scripts run unchanged. Stores nothing, as v1 does with collect_model_data off."""

    _has_said = False

    def __init__(self, model_name, designation="default", feature_names=None, workspace="default",
                 webservice_name="default", model_version="default", collection_name="default", identifier=None):
        self.model_name, self.designation = model_name, identifier or designation
        self.feature_names = feature_names
        self.workspace, self.webservice_name = workspace, webservice_name
        self.model_version, self.collection_name = model_version, collection_name
        self._show()

    def collect(self, input_data, user_correlation_id=""):
        return None

    def add_correlations(self, input_data, user_correlation_ids):
        return input_data

    @classmethod
    def _show(cls):
        if not ModelDataCollector._has_said:
            ModelDataCollector._has_said = True
            sys.stderr.write(_SAID + "\n")
