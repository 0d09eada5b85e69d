import os

from azureml.core.compute.compute import (  # noqa: F401
    MLC_COMPUTE_RESOURCE_ID_FMT, MLC_WORKSPACE_API_VERSION, ComputeTarget, ComputeTargetAttachConfiguration,
    ComputeTargetProvisioningConfiguration, ComputeTargetUpdateConfiguration, put_target)
from azureml.exceptions import ComputeTargetException

_PURPOSES = ("DevTest", "FastProd")
_LOAD_BALANCERS = ("PublicIp", "InternalLoadBalancer")
__all__ = ["AksAttachConfiguration", "AksCompute", "AksProvisioningConfiguration", "AksUpdateConfiguration",
           "SslConfiguration", "SystemService"]


class _Secured(object):
    """TLS settings of a cluster. Stored only; the ssl settings of a web service take effect."""

    ssl_cname = ssl_cert_pem_file = ssl_key_pem_file = leaf_domain_label = None
    overwrite_existing_domain = False

    def enable_ssl(self, ssl_cname=None, ssl_cert_pem_file=None, ssl_key_pem_file=None, leaf_domain_label=None,
                   overwrite_existing_domain=False):
        self.ssl_cname = ssl_cname
        self.ssl_cert_pem_file = ssl_cert_pem_file
        self.ssl_key_pem_file = ssl_key_pem_file
        self.leaf_domain_label = leaf_domain_label
        self.overwrite_existing_domain = overwrite_existing_domain
        self._check_ssl()

    def _check_ssl(self):
        given = [name for name in ("ssl_cname", "ssl_cert_pem_file", "ssl_key_pem_file") if getattr(self, name)]
        if self.leaf_domain_label and given:
            raise ComputeTargetException("leaf_domain_label brings its own certificate, so it excludes %s." % given[0])
        if given and len(given) < 3:
            raise ComputeTargetException("ssl_cname, ssl_cert_pem_file and ssl_key_pem_file go together; given: %s." % (
                ", ".join(given)))
        for name in ("ssl_cert_pem_file", "ssl_key_pem_file"):
            path = getattr(self, name)
            if path and not os.path.isfile(path):
                raise ComputeTargetException("%s names no file: %r." % (name, path))

    def _ssl_facts(self):
        if not (self.ssl_cname or self.leaf_domain_label):
            return None
        return {"status": "Auto" if self.leaf_domain_label else "Enabled", "cname": self.ssl_cname,
                "leaf_domain_label": self.leaf_domain_label,
                "overwrite_existing_domain": bool(self.overwrite_existing_domain)}


class AksProvisioningConfiguration(_Secured, ComputeTargetProvisioningConfiguration):
    """Settings of a new cluster; in Runyard another name for this machine. Raises ComputeTargetException for
    contradictions."""

    def __init__(self, agent_count, vm_size, ssl_cname, ssl_cert_pem_file, ssl_key_pem_file, location,
                 vnet_resourcegroup_name, vnet_name, subnet_name, service_cidr, dns_service_ip, docker_bridge_cidr,
                 cluster_purpose, load_balancer_type, load_balancer_subnet):
        super(AksProvisioningConfiguration, self).__init__("AKS", location)
        self.agent_count = agent_count
        self.vm_size = vm_size
        self.ssl_cname = ssl_cname
        self.ssl_cert_pem_file = ssl_cert_pem_file
        self.ssl_key_pem_file = ssl_key_pem_file
        self.vnet_resourcegroup_name = vnet_resourcegroup_name
        self.vnet_name = vnet_name
        self.subnet_name = subnet_name
        self.service_cidr = service_cidr
        self.dns_service_ip = dns_service_ip
        self.docker_bridge_cidr = docker_bridge_cidr
        self.cluster_purpose = cluster_purpose
        self.load_balancer_type = load_balancer_type
        self.load_balancer_subnet = load_balancer_subnet
        self.leaf_domain_label, self.overwrite_existing_domain = None, False
        self.validate_configuration()

    def validate_configuration(self):
        count = self.agent_count
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise ComputeTargetException("agent_count must be a whole number of at least 1, got %r." % (count,))
        _check_choices(self)
        network = [self.vnet_resourcegroup_name, self.vnet_name, self.subnet_name]
        if any(network) and not all(network):
            raise ComputeTargetException("vnet_resourcegroup_name, vnet_name and subnet_name go together.")
        self._check_ssl()

    def _facts(self):
        return {"agent_count": self.agent_count or 3, "vm_size": self.vm_size or "", "location": self.location,
                "cluster_purpose": self.cluster_purpose or "FastProd", "load_balancer_type": self.load_balancer_type,
                "load_balancer_subnet": self.load_balancer_subnet, "is_attached": False, "ssl": self._ssl_facts(),
                "cluster_resource_id": None}


class AksAttachConfiguration(_Secured, ComputeTargetAttachConfiguration):
    """Settings of an existing cluster; in Runyard another name for this machine. Raises for contradictions."""

    def __init__(self, resource_group=None, cluster_name=None, resource_id=None, cluster_purpose=None,
                 load_balancer_type=None, load_balancer_subnet=None):
        super(AksAttachConfiguration, self).__init__("AKS")
        self.resource_group = resource_group
        self.cluster_name = cluster_name
        self.resource_id = resource_id
        self.cluster_purpose = cluster_purpose
        self.load_balancer_type = load_balancer_type
        self.load_balancer_subnet = load_balancer_subnet
        self.ssl_cname = self.ssl_cert_pem_file = self.ssl_key_pem_file = self.leaf_domain_label = None
        self.overwrite_existing_domain = False
        self.validate_configuration()

    def validate_configuration(self):
        named = bool(self.resource_group and self.cluster_name)
        if named == bool(self.resource_id):
            raise ComputeTargetException("Name the cluster by resource_id, or by resource_group and cluster_name.")
        _check_choices(self)
        self._check_ssl()

    def _facts(self):
        return {"agent_count": 1, "vm_size": "", "location": None, "is_attached": True, "ssl": self._ssl_facts(),
                "cluster_purpose": self.cluster_purpose or "FastProd",
                "load_balancer_type": self.load_balancer_type, "load_balancer_subnet": self.load_balancer_subnet,
                "cluster_resource_id": self.resource_id or "%s/%s" % (self.resource_group, self.cluster_name)}


class AksUpdateConfiguration(ComputeTargetUpdateConfiguration):
    def __init__(self, ssl_configuration=None, load_balancer_type=None, load_balancer_subnet=None):
        super(AksUpdateConfiguration, self).__init__("AKS")
        self.ssl_configuration = ssl_configuration
        self.load_balancer_type = load_balancer_type
        self.load_balancer_subnet = load_balancer_subnet
        self.validate_configuration()

    def validate_configuration(self):
        if self.ssl_configuration is not None and not isinstance(self.ssl_configuration, SslConfiguration):
            raise ComputeTargetException("ssl_configuration must be an SslConfiguration, got %r." % (
                self.ssl_configuration,))
        _check_choices(self)


class SslConfiguration(object):
    """TLS facts of a cluster. Certificate and key are not stored."""

    def __init__(self, status=None, cert=None, key=None, cname=None, leaf_domain_label=None,
                 overwrite_existing_domain=False, renew=False):
        self.status = status
        self.cert = cert
        self.key = key
        self.cname = cname
        self.leaf_domain_label = leaf_domain_label
        self.overwrite_existing_domain = overwrite_existing_domain
        self.renew = renew

    def serialize(self):
        return {"status": self.status, "cert": self.cert, "key": self.key, "cname": self.cname,
                "leafDomainLabel": self.leaf_domain_label, "renew": self.renew,
                "overwriteExistingDomain": self.overwrite_existing_domain}

    @staticmethod
    def deserialize(object_dict):
        if object_dict is None:
            return None
        keys = ("status", "cert", "key", "cname", "leafDomainLabel", "overwriteExistingDomain", "renew")
        return SslConfiguration(*[object_dict.get(key) for key in keys])


class SystemService(object):
    """A system service of a cluster; Runyard has none."""

    def __init__(self, service_type, version, public_ip_address):
        self.service_type = service_type
        self.version = version
        self.public_ip_address = public_ip_address

    def serialize(self):
        return {"serviceType": self.service_type, "version": self.version, "publicIpAddress": self.public_ip_address}

    @staticmethod
    def deserialize(object_dict):
        missing = [key for key in ("systemServiceType", "version", "publicIpAddress") if key not in object_dict]
        if missing:
            raise ComputeTargetException("Missing %s in the system service %r." % (", ".join(missing), object_dict))
        return SystemService(object_dict["systemServiceType"], object_dict["version"], object_dict["publicIpAddress"])


def _check_choices(configuration):
    for name, allowed in (("cluster_purpose", _PURPOSES), ("load_balancer_type", _LOAD_BALANCERS)):
        value = getattr(configuration, name, None)
        if value is not None and value not in allowed:
            raise ComputeTargetException("%s must be %s, got %r." % (name, " or ".join(map(repr, allowed)), value))


class AksCompute(ComputeTarget):
    """A cluster for web services: creating or attaching one gives this machine another name to deploy to.

    Runs cannot be submitted to it.
    """

    _compute_type = "AKS"

    class ClusterPurpose(object):
        DEV_TEST, FAST_PROD = _PURPOSES

    @staticmethod
    def provisioning_configuration(agent_count=None, vm_size=None, ssl_cname=None, ssl_cert_pem_file=None,
                                   ssl_key_pem_file=None, location=None, vnet_resourcegroup_name=None, vnet_name=None,
                                   subnet_name=None, service_cidr=None, dns_service_ip=None, docker_bridge_cidr=None,
                                   cluster_purpose=None, load_balancer_type=None, load_balancer_subnet=None):
        return AksProvisioningConfiguration(
            agent_count, vm_size, ssl_cname, ssl_cert_pem_file, ssl_key_pem_file, location, vnet_resourcegroup_name,
            vnet_name, subnet_name, service_cidr, dns_service_ip, docker_bridge_cidr, cluster_purpose,
            load_balancer_type, load_balancer_subnet)

    @staticmethod
    def attach_configuration(resource_group=None, cluster_name=None, resource_id=None, cluster_purpose=None,
                             load_balancer_type=None, load_balancer_subnet=None):
        return AksAttachConfiguration(resource_group, cluster_name, resource_id, cluster_purpose, load_balancer_type,
                                      load_balancer_subnet)

    @staticmethod
    def attach(workspace, name, resource_id):
        return ComputeTarget.attach(workspace, name, AksCompute.attach_configuration(resource_id=resource_id))

    def detach(self):
        """Remove the target. Its web services go on answering."""
        if not self.is_attached:
            super(AksCompute, self).detach()
        super(AksCompute, self).delete()

    def delete(self):
        """Remove the target. Its web services go on answering."""
        if self.is_attached:
            raise ComputeTargetException("%r was attached, not created, so it cannot be deleted; call detach()." % (
                self.name,))
        super(AksCompute, self).delete()

    def get_credentials(self):
        from azureml._unsupported import unsupported
        raise unsupported("AksCompute.get_credentials", "There is no Kubernetes here: web services are processes of "
                          "this machine.")

    def update(self, update_configuration):
        """Store the settings; TLS of a cluster has no effect."""
        from azureml._assets import patch_asset
        given = {"load_balancer_type": update_configuration.load_balancer_type,
                 "load_balancer_subnet": update_configuration.load_balancer_subnet}
        if update_configuration.ssl_configuration is not None:
            ssl = update_configuration.ssl_configuration
            given["ssl"] = {"status": ssl.status, "cname": ssl.cname, "leaf_domain_label": ssl.leaf_domain_label,
                            "overwrite_existing_domain": bool(ssl.overwrite_existing_domain)}
        facts = dict(self._facts, **{name: value for name, value in given.items() if value is not None})
        patch_asset(self.workspace, "computes", self.name, body={"aks": facts})
        self.refresh_state()

    def serialize(self):
        written = super(AksCompute, self).serialize()
        written["properties"]["properties"] = {
            "agentCount": self.agent_count, "agentVmSize": self.agent_vm_size, "clusterFqdn": self.cluster_fqdn,
            "clusterPurpose": self.cluster_purpose, "systemServices": self.system_services,
            "sslConfiguration": self.ssl_configuration.serialize() if self.ssl_configuration else None,
            "loadBalancerType": self.load_balancer_type, "loadBalancerSubnet": self.load_balancer_subnet}
        return written

    @staticmethod
    def deserialize(workspace, object_dict):
        return AksCompute(workspace, object_dict["name"])

    def refresh_state(self):
        """Refresh every attribute."""
        super(AksCompute, self).refresh_state()

    @classmethod
    def _create(cls, workspace, name, configuration):
        facts = configuration._facts()
        return put_target(cls, workspace, name, {
            "type": "AKS", "vm_size": facts["vm_size"], "min_nodes": 0, "max_nodes": facts["agent_count"],
            "location": facts["location"] or workspace.location, "provisioning_state": "Succeeded", "aks": facts}, None)

    _attach = _create

    def _take(self, workspace, asset):
        super(AksCompute, self)._take(workspace, asset)
        facts = self._facts = dict(asset["body"].get("aks") or {})
        self.agent_count, self.agent_vm_size = facts.get("agent_count"), facts.get("vm_size")
        self.cluster_fqdn, self.cluster_purpose = "localhost", facts.get("cluster_purpose")
        self.cluster_resource_id = facts.get("cluster_resource_id")
        self.is_attached = bool(facts.get("is_attached"))
        self.load_balancer_type = facts.get("load_balancer_type")
        self.load_balancer_subnet = facts.get("load_balancer_subnet")
        self.system_services = []
        ssl = facts.get("ssl")
        self.ssl_configuration = SslConfiguration(
            ssl["status"], None, None, ssl["cname"], ssl["leaf_domain_label"],
            ssl["overwrite_existing_domain"]) if ssl else None


AksProvisioningConfiguration._compute_class = AksCompute
AksAttachConfiguration._compute_class = AksCompute
ComputeTarget._types["AKS"] = AksCompute
