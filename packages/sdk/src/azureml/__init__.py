"""The names of SDK v1, over a Runyard service. What it holds is in `azureml.core` and its siblings."""

from azureml._lazy import lazy_names
from azureml._neighbours import check_neighbours

check_neighbours()
lazy_names(__name__, {})
