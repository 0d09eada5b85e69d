from azureml.core.compute._aks_settings import (
    PURPOSES, AksAttachConfiguration, AksProvisioningConfiguration, AksUpdateConfiguration, SslConfiguration,
    SystemService)
from azureml.core.compute._storing import put_target
from azureml.core.compute.compute import (  # noqa: F401
    MLC_COMPUTE_RESOURCE_ID_FMT, MLC_WORKSPACE_API_VERSION, ComputeTarget, ComputeTargetAttachConfiguration,
    ComputeTargetProvisioningConfiguration, ComputeTargetUpdateConfiguration)
from azureml.exceptions import ComputeTargetException

__all__ = ["AksAttachConfiguration", "AksCompute", "AksProvisioningConfiguration", "AksUpdateConfiguration",
           "SslConfiguration", "SystemService"]


class AksCompute(ComputeTarget):
    """A cluster for web services. Making or attaching one gives this machine another name to deploy to.

    Runs cannot be submitted to it.
    """

    _compute_type = "AKS"

    class ClusterPurpose(object):
        DEV_TEST, FAST_PROD = PURPOSES

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
        """Forget the target. Web services that were deployed to it answer on."""
        if not self.is_attached:
            super(AksCompute, self).detach()
        super(AksCompute, self).delete()

    def delete(self):
        """Remove the target. Web services that were deployed to it answer on."""
        if self.is_attached:
            raise ComputeTargetException("%r was attached, not created, so it cannot be deleted; call detach()." % (
                self.name,))
        super(AksCompute, self).delete()

    def get_credentials(self):
        from azureml._not_yet import unsupported
        raise unsupported("AksCompute.get_credentials", "There is no Kubernetes here: web services are processes of "
                          "this machine.")

    def update(self, update_configuration):
        """Keep what is given; TLS of a cluster has no effect here."""
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
        """Bring every attribute up to date."""
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
