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
"""Variables that mark a worker of a web service: every process that inherits them is killed with the worker.

So they are removed for a service or an agent that a scoring script may start: it must outlive the worker.
"""
