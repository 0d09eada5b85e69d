from azureml.core.environment import Environment  # noqa: F401
from azureml.core.image import Image  # noqa: F401
from azureml.core.model import Model  # noqa: F401
from azureml.core.webservice._configuration import (  # noqa: F401
    ACI_WEBSERVICE_TYPE, AciServiceDeploymentConfiguration, ContainerResourceRequirements, EncryptionProperties,
    VnetConfiguration, check_ssl, with_pem_texts)
from azureml.core.webservice._records import change, changes_of
from azureml.core.webservice.webservice import DeployedWebservice
from azureml.core.webservice.webservice import (  # noqa: F401
    MMS_SYNC_TIMEOUT_SECONDS, SERVICE_REQUEST_OPERATION_UPDATE, Webservice, WebserviceDeploymentConfiguration)
from azureml.exceptions import WebserviceException  # noqa: F401

WEBSERVICE_SWAGGER_PATH = "/swagger.json"


class AciWebservice(DeployedWebservice):
    """A web service for development: one worker on this machine, without keys unless enabled."""

    _webservice_type = ACI_WEBSERVICE_TYPE

    @staticmethod
    def deploy_configuration(cpu_cores=None, memory_gb=None, tags=None, properties=None, description=None,
                             location=None, auth_enabled=None, ssl_enabled=None, enable_app_insights=None,
                             ssl_cert_pem_file=None, ssl_key_pem_file=None, ssl_cname=None, dns_name_label=None,
                             primary_key=None, secondary_key=None, collect_model_data=None, cmk_vault_base_url=None,
                             cmk_key_name=None, cmk_key_version=None, vnet_name=None, subnet_name=None):
        return AciServiceDeploymentConfiguration(
            cpu_cores, memory_gb, tags, properties, description, location, auth_enabled, ssl_enabled,
            enable_app_insights, ssl_cert_pem_file, ssl_key_pem_file, ssl_cname, dns_name_label, primary_key,
            secondary_key, collect_model_data, cmk_vault_base_url, cmk_key_name, cmk_key_version, vnet_name,
            subnet_name)

    def update(self, image=None, tags=None, properties=None, description=None, auth_enabled=None, ssl_enabled=None,
               ssl_cert_pem_file=None, ssl_key_pem_file=None, ssl_cname=None, enable_app_insights=None, models=None,
               inference_config=None):
        """Change the given settings. A new model or script takes over when ready; no request fails meanwhile."""
        if ssl_enabled is None and self.ssl_enabled and (ssl_cert_pem_file or ssl_key_pem_file):
            ssl_enabled, ssl_cname = True, ssl_cname or self.cname  # replaces a certificate
        check_ssl(ssl_enabled, ssl_cert_pem_file, ssl_key_pem_file, ssl_cname)
        settings = with_pem_texts({
            "auth_enabled": auth_enabled, "ssl_enabled": ssl_enabled, "ssl_cert_pem_file": ssl_cert_pem_file,
            "ssl_key_pem_file": ssl_key_pem_file, "ssl_cname": ssl_cname, "enable_app_insights": enable_app_insights})
        change(self, **changes_of(self, image, models, inference_config, tags, properties, description, settings))

    def get_token(self):
        raise NotImplementedError("An AciWebservice has no tokens. Use get_keys(), with auth_enabled=True.")

    def serialize(self):
        written = super(AciWebservice, self).serialize()
        written.update(location=self.location, cname=self.cname, sslEnabled=self.ssl_enabled, publicIp=self.public_ip,
                       publicFqdn=self.public_fqdn, encryptionProperties=_serialized(self.encryption_properties),
                       vnetConfiguration=_serialized(self.vnet_configuration))
        return written

    def _take(self, workspace, record):
        super(AciWebservice, self)._take(workspace, record)
        config = record["config"]
        self.location = config.get("location") or workspace.location
        self.container_resource_requirements = ContainerResourceRequirements(
            config.get("cpu_cores"), config.get("memory_gb"))
        self.enable_app_insights = bool(config.get("enable_app_insights"))
        self.ssl_enabled, self.cname = bool(config.get("ssl_enabled")), config.get("ssl_cname")
        self.ssl_certificate, self.ssl_key = config.get("ssl_cert_pem"), None
        self.public_ip, self.public_fqdn = "127.0.0.1", "localhost"
        self.encryption_properties = _part(EncryptionProperties, config, "cmk_vault_base_url", "cmk_key_name",
                                           "cmk_key_version")
        self.vnet_configuration = _part(VnetConfiguration, config, "vnet_name", "subnet_name")


def _part(kind, config, *names):
    values = [config.get(name) for name in names]
    return kind(*values) if any(values) else None


def _serialized(part):
    return part.serialize() if part is not None else None


Webservice._types[ACI_WEBSERVICE_TYPE] = AciWebservice
