from azureml._filters import as_texts, keys_of
from azureml.core.environment import Environment
from azureml.core.model import Model
from azureml.core.webservice._changing import change
from azureml.core.webservice.webservice import Webservice


class DeployedWebservice(Webservice):
    """What AciWebservice and AksWebservice have in common."""

    def run(self, input_data):
        """POST the text or bytes as JSON; returns what the answer says. WebserviceException for any status but 200."""
        from azureml.core.webservice._scoring import ask
        return ask(self, input_data)

    def add_tags(self, tags):
        change(self, tags=as_texts(tags))

    def remove_tags(self, tags):
        change(self, tags={key: None for key in keys_of(tags)})

    def add_properties(self, properties):
        """Add properties; one that is set cannot change."""
        change(self, properties=as_texts(properties))

    @property
    def models(self):
        """The models that it serves."""
        return [Model(self.workspace, id=model_id) for model_id in self._record["models"]]

    @property
    def environment(self):
        """The environment of its scoring script; None for a model that is deployed without one."""
        inference = self._record.get("inference")
        return Environment._from_object(inference["environment"]) if inference else None

    def serialize(self):
        written = super(DeployedWebservice, self).serialize()
        environment, requirements = self.environment, self.container_resource_requirements
        written.update({
            "scoringUri": self.scoring_uri, "swaggerUri": self.swagger_uri,
            "appInsightsEnabled": self.enable_app_insights,
            "environment": environment._to_object() if environment is not None else None,
            "containerResourceRequirements": requirements.serialize() if requirements else None})
        return written

    def _finished_line(self, outcome):
        return '%s service creation operation finished, operation "%s"' % (self._record["type"], outcome)
