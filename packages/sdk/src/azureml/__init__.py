"""Azure ML SDK v1 names, backed by a Runyard service. See `azureml.core` and its siblings."""

from azureml._lazy import lazy_names
from azureml._conflicts import check_conflicts

check_conflicts()
lazy_names(__name__, {})
