import os

from azureml.core.webservice._configuration import WebserviceDeploymentConfiguration, check_number, check_together
from azureml.core.webservice._part import Part
from azureml.exceptions import WebserviceException

ACI_WEBSERVICE_TYPE = "ACI"


class AciServiceDeploymentConfiguration(WebserviceDeploymentConfiguration):
    """The settings of an AciWebservice. Contradictions raise WebserviceException at once."""

    def __init__(self, cpu_cores=None, memory_gb=None, tags=None, properties=None, description=None, location=None,
                 auth_enabled=None, ssl_enabled=None, enable_app_insights=None, ssl_cert_pem_file=None,
                 ssl_key_pem_file=None, ssl_cname=None, dns_name_label=None, primary_key=None, secondary_key=None,
                 collect_model_data=None, cmk_vault_base_url=None, cmk_key_name=None, cmk_key_version=None,
                 vnet_name=None, subnet_name=None):
        super(AciServiceDeploymentConfiguration, self).__init__(
            ACI_WEBSERVICE_TYPE, description, tags, properties, primary_key, secondary_key, location)
        self.cpu_cores = cpu_cores
        self.memory_gb = memory_gb
        self.auth_enabled = auth_enabled
        self.ssl_enabled = ssl_enabled
        self.enable_app_insights = enable_app_insights
        self.ssl_cert_pem_file = ssl_cert_pem_file
        self.ssl_key_pem_file = ssl_key_pem_file
        self.ssl_cname = ssl_cname
        self.dns_name_label = dns_name_label
        self.collect_model_data = collect_model_data
        self.cmk_vault_base_url = cmk_vault_base_url
        self.cmk_key_name = cmk_key_name
        self.cmk_key_version = cmk_key_version
        self.vnet_name = vnet_name
        self.subnet_name = subnet_name
        self.validate_configuration()

    def validate_configuration(self):
        check_number("cpu_cores", self.cpu_cores, above=0)
        check_number("memory_gb", self.memory_gb, above=0)
        check_ssl(self.ssl_enabled, self.ssl_cert_pem_file, self.ssl_key_pem_file, self.ssl_cname)
        check_together(("cmk_vault_base_url", "cmk_key_name", "cmk_key_version"),
                       (self.cmk_vault_base_url, self.cmk_key_name, self.cmk_key_version), "a key of your own")
        check_together(("vnet_name", "subnet_name"), (self.vnet_name, self.subnet_name), "a virtual network")

    def print_deploy_configuration(self):
        self._print(("cpu_cores", "memory_gb", "auth_enabled", "ssl_enabled", "enable_app_insights", "location"))

    def _to_wire(self):
        return with_pem_texts(super(AciServiceDeploymentConfiguration, self)._to_wire())


class ContainerResourceRequirements(Part):
    """What one replica may use."""

    _keys = (("cpu", "cpu"), ("memory_in_gb", "memoryInGB"))

    def __init__(self, cpu, memory_in_gb):
        self.cpu = cpu
        self.memory_in_gb = memory_in_gb


class EncryptionProperties(Part):
    """The key that Azure was to encrypt the container with. Kept as given, without effect here."""

    _keys = (("cmk_vault_base_url", "vaultBaseUrl"), ("cmk_key_name", "keyName"), ("cmk_key_version", "keyVersion"))

    def __init__(self, cmk_vault_base_url, cmk_key_name, cmk_key_version):
        self.cmk_vault_base_url = cmk_vault_base_url
        self.cmk_key_name = cmk_key_name
        self.cmk_key_version = cmk_key_version


class VnetConfiguration(Part):
    """The network of Azure that the container was to be in. Kept as given, without effect here."""

    _keys = (("vnet_name", "vnetName"), ("subnet_name", "subnetName"))

    def __init__(self, vnet_name, subnet_name):
        self.vnet_name = vnet_name
        self.subnet_name = subnet_name


def check_ssl(enabled, cert_file, key_file, cname):
    """WebserviceException for TLS with half of what it needs, and for files that are not there."""
    given = [name for name, value in (("ssl_cert_pem_file", cert_file), ("ssl_key_pem_file", key_file),
                                      ("ssl_cname", cname)) if value]
    if enabled and len(given) < 3:
        raise WebserviceException("ssl_enabled needs ssl_cert_pem_file, ssl_key_pem_file and ssl_cname; given: %s." % (
            ", ".join(given) or "none of them"))
    if given and not enabled:
        raise WebserviceException("%s is given, but ssl_enabled is not: pass ssl_enabled=True with it." % given[0])
    for name, path in (("ssl_cert_pem_file", cert_file), ("ssl_key_pem_file", key_file)):
        if path and not os.path.isfile(path):
            raise WebserviceException("%s names no file: %r." % (name, path))


def with_pem_texts(settings):
    """The settings with the texts of the certificate and the key in place of the paths of their files."""
    changed = dict(settings)
    for name in ("ssl_cert_pem", "ssl_key_pem"):
        path = changed.pop(name + "_file", None)
        if path is not None:
            changed[name] = _text_of(name + "_file", path)
    return changed


def _text_of(argument, path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise WebserviceException("%s %r cannot be read as a PEM file: %s." % (argument, path, error))
