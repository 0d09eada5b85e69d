class WorkspaceAssets:
    """What a workspace holds, as mappings by name."""

    @property
    def experiments(self):
        from azureml.core.experiment import Experiment

        return {experiment.name: experiment for experiment in Experiment.list(self)}

    @property
    def compute_targets(self):
        from azureml.core.compute import ComputeTarget

        return {target.name: target for target in ComputeTarget.list(self)}

    @property
    def datastores(self):
        from azureml.core.datastore import all_datastores

        return all_datastores(self)

    @property
    def datasets(self):
        from azureml.core.dataset import Dataset

        return Dataset.get_all(self)

    @property
    def environments(self):
        from azureml.core.environment import Environment

        return Environment.list(self)

    @property
    def models(self):
        from azureml.core.model import Model

        return {model.name: model for model in Model.list(self, latest=True)}

    @property
    def images(self):
        from azureml.core.image import Image

        newest_last = reversed(Image.list(self))
        return {image.name: image for image in newest_last}

    @property
    def webservices(self):
        from azureml.core.webservice import Webservice

        return {service.name: service for service in Webservice.list(self)}

    def get_default_datastore(self):
        from azureml.core.datastore import Datastore

        return Datastore.get_default(self)

    def set_default_datastore(self, name):
        from azureml.core.datastore import Datastore

        Datastore.get(self, name).set_as_default()

    def get_default_keyvault(self):
        from azureml.core.keyvault import Keyvault

        return Keyvault(self)

    def get_default_compute_target(self, type):
        """The cluster of the conventional name for "CPU" or "GPU", or None."""
        names = {"CPU": self.DEFAULT_CPU_CLUSTER_NAME, "GPU": self.DEFAULT_GPU_CLUSTER_NAME}
        return self.compute_targets.get(names.get(str(type).upper()))

    def get_run(self, run_id):
        from azureml.core.run import Run

        return Run.get(self, run_id)
