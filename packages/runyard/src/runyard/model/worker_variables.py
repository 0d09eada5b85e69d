WORKER_VARIABLES = frozenset(
    {
        "AML_APP_ROOT",
        "AZUREML_APP_ROOT",
        "AZUREML_ENTRY_SCRIPT",
        "AZUREML_MODEL_DIR",
        "RUNYARD_MODELS_ROOT",
        "RUNYARD_SERVICE",
        "RUNYARD_WORKER",
    }
)
"""By these a worker of a web service knows what it serves, and is known itself: whatever has them ends with it. A
service or an agent that a scoring script happens to start must not."""
