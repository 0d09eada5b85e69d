class ModelServing(object):
    """What is done with registered models beyond keeping them."""

    @staticmethod
    def deploy(workspace, name, models, inference_config=None, deployment_config=None, deployment_target=None,
               overwrite=False, show_output=False):
        """Deploy models as a web service; it answers once wait_for_deployment() has returned.

        Without inference_config one model is served by its model_framework. Without deployment_config and
        deployment_target it is an AciWebservice. With show_output this waits, and tells how it goes.
        """
        from azureml.core.webservice._deploying import deploy
        service = deploy(workspace, name, models, inference_config, deployment_config, deployment_target, overwrite)
        if show_output:
            service.wait_for_deployment(show_output=True)
        return service

    @staticmethod
    def package(workspace, models, inference_config=None, generate_dockerfile=False, image_name=None,
                image_label=None):
        """A folder with a Dockerfile, the models, the script and its environment; `save` brings it here."""
        from azureml.core._model_package import create_package
        return create_package(workspace, models, inference_config)

    @staticmethod
    def profile(workspace, profile_name, models, inference_config, input_dataset=None, cpu=None, memory_in_gb=None,
                description=None, input_data=None):
        """Ask the model with every row of a dataset, and measure latency and memory. input_data, a text, is the one
        request, by its name in 1.0.65."""
        from azureml.core.profile import start_profile
        requests = input_data if input_dataset is None else input_dataset
        return start_profile(workspace, profile_name, models, inference_config, requests, cpu, memory_in_gb,
                             description)

    @staticmethod
    def print_configuration(models, inference_config, deployment_config, deployment_target):
        """Print what a deployment would be made of."""
        print("Models: %s" % ", ".join(getattr(model, "id", str(model)) for model in models or []))
        if inference_config is not None:
            print("Entry script: %s" % inference_config.entry_script)
            print("Environment: %s" % getattr(inference_config.environment, "name", inference_config.runtime))
        if deployment_target is not None:
            print("Deployment target: %s" % deployment_target.name)
        if deployment_config is not None:
            deployment_config.print_deploy_configuration()
