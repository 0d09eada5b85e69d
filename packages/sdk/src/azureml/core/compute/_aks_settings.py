import os

from azureml.core.compute.compute import (
    ComputeTargetAttachConfiguration, ComputeTargetProvisioningConfiguration, ComputeTargetUpdateConfiguration)
from azureml.exceptions import ComputeTargetException

PURPOSES = ("DevTest", "FastProd")
_LOAD_BALANCERS = ("PublicIp", "InternalLoadBalancer")


class _Secured(object):
    """How the cluster was to speak TLS. Kept as given; a web service's own ssl settings are those with an effect."""

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
    """A cluster to be made; here it is a name for this machine. Contradictions raise ComputeTargetException."""

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
    """A cluster that is there already; here it is a name for this machine. Contradictions raise."""

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
    """What a cluster says of its TLS. Certificate and key are not kept."""

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
    """A service of a cluster's own; there are none here."""

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
    for name, allowed in (("cluster_purpose", PURPOSES), ("load_balancer_type", _LOAD_BALANCERS)):
        value = getattr(configuration, name, None)
        if value is not None and value not in allowed:
            raise ComputeTargetException("%s must be %s, got %r." % (name, " or ".join(map(repr, allowed)), value))
