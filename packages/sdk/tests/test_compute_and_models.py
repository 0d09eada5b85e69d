import os
import tempfile
import unittest

from azureml._unsupported import NotYetException
from azureml.core.model import _common_root, _local_files, _target_paths
from azureml.core.compute import AksCompute, AmlCompute, ComputeTarget, DsvmCompute, RayCompute, RemoteCompute
from azureml.core.compute.aks import SslConfiguration, SystemService
from azureml.core.compute.amlcompute import AmlComputeStatus
from azureml.core.compute_target import ComputeTargetException
from azureml.core.model import Model
from azureml.core.resource_configuration import ResourceConfiguration
from azureml.exceptions import ComputeTargetException as declared
from azureml.exceptions import ModelNotFoundException, UserErrorException, WebserviceException


class Clusters(unittest.TestCase):
    def test_the_leaked_exception_is_the_declared_one(self):
        self.assertIs(ComputeTargetException, declared)

    def test_settings_that_cannot_be_are_refused(self):
        for settings, said in (({}, "max_nodes is missing"), ({"max_nodes": 1, "min_nodes": 2}, "at least min_nodes"),
                               ({"max_nodes": -1}, "max_nodes must be"), ({"max_nodes": "4"}, "max_nodes must be"),
                               ({"max_nodes": 1, "vm_priority": "cheap"}, "vm_priority"),
                               ({"max_nodes": 1, "admin_username": "me"}, "admin_username needs"),
                               ({"max_nodes": 1, "vnet_name": "v"}, "go together")):
            with self.assertRaisesRegex(ComputeTargetException, said):
                AmlCompute.provisioning_configuration(**settings)

    def test_names_are_checked_before_the_service_is_asked(self):
        configuration = AmlCompute.provisioning_configuration(max_nodes=1)
        for name in ("local", "AmlCompute", "containerinstance", "../x", "a b", "", "1a", "a" * 64, None, "ab\n"):
            with self.assertRaises(UserErrorException):
                ComputeTarget.create(None, name, configuration)
        with self.assertRaisesRegex(UserErrorException, "provisioning_configuration must come from"):
            ComputeTarget.create(None, "cluster", {"max_nodes": 1})

    def test_a_status_survives_serialize_and_deserialize(self):
        written = {"currentNodeCount": 1, "targetNodeCount": 2, "nodeStateCounts": {
            "preparingNodeCount": 1, "runningNodeCount": 0, "idleNodeCount": 0, "unusableNodeCount": 0,
            "leavingNodeCount": 0, "preemptedNodeCount": 0}, "allocationState": "Resizing",
            "allocationStateTransitionTime": "t", "errors": None, "creationTime": "t", "modifiedTime": "t",
            "provisioningState": "Succeeded", "provisioningStateTransitionTime": "t", "scaleSettings": {
                "minNodeCount": 0, "maxNodeCount": 4, "nodeIdleTimeBeforeScaleDown": "PT1800S"},
            "vmPriority": "dedicated", "vmSize": "S"}
        self.assertEqual(AmlComputeStatus.deserialize(written).serialize(), written)

    def test_targets_of_azure_can_be_described_and_say_so_when_made(self):
        with self.assertRaisesRegex(NotYetException, "DsvmCompute"):
            ComputeTarget.create(None, "vm", DsvmCompute.provisioning_configuration(vm_size="S"))
        attach = RemoteCompute.attach_configuration(address="host", ssh_port=22, username="me")
        self.assertEqual(attach.address, "host")
        with self.assertRaisesRegex(NotYetException, "not supported"):
            ComputeTarget.attach(None, "vm", attach)


class ClustersForWebServices(unittest.TestCase):
    def test_settings_that_cannot_be_are_refused(self):
        for settings, said in (({"agent_count": 0}, "agent_count"), ({"cluster_purpose": "Fun"}, "'DevTest' or"),
                               ({"vnet_name": "v"}, "go together"), ({"ssl_cname": "a.b"}, "go together"),
                               ({"load_balancer_type": "x"}, "load_balancer_type")):
            with self.assertRaisesRegex(ComputeTargetException, said):
                AksCompute.provisioning_configuration(**settings)

    def test_a_cluster_is_attached_by_its_id_or_by_group_and_name(self):
        self.assertEqual(AksCompute.attach_configuration(resource_id="/x")._facts()["cluster_resource_id"], "/x")
        AksCompute.attach_configuration(resource_group="g", cluster_name="c")
        for settings in ({}, {"resource_group": "g"}, {"resource_group": "g", "cluster_name": "c", "resource_id": "/x"}):
            with self.assertRaisesRegex(ComputeTargetException, "Name the cluster by"):
                AksCompute.attach_configuration(**settings)

    def test_tls_of_a_cluster_excludes_what_contradicts_it(self):
        configuration = AksCompute.provisioning_configuration()
        with self.assertRaisesRegex(ComputeTargetException, "excludes ssl_cname"):
            configuration.enable_ssl(ssl_cname="a.b", leaf_domain_label="label")
        configuration.enable_ssl(leaf_domain_label="label")
        self.assertEqual(configuration._facts()["ssl"]["status"], "Auto")

    def test_its_parts_survive_serialize_and_deserialize(self):
        ssl = SslConfiguration("Enabled", "c", "k", "a.b", None, True, True)
        self.assertEqual(vars(SslConfiguration.deserialize(ssl.serialize())), vars(ssl))
        with self.assertRaisesRegex(ComputeTargetException, "publicIpAddress"):
            SystemService.deserialize({"systemServiceType": "t", "version": "1"})


class RayClusters(unittest.TestCase):
    def test_amounts_are_given_by_name_or_together(self):
        by_name = RayCompute.attach_configuration("head:6379", cpu=4, gpu=1, memory_gb=16)
        together = RayCompute.attach_configuration("head:6379", resources={"cpu": 4, "gpu": 1, "memory_gb": 16})
        self.assertEqual(by_name.resources, together.resources)
        self.assertEqual(RayCompute.attach_configuration("head:6379").resources, {})

    def test_settings_that_cannot_be_are_refused(self):
        good = {"address": "head:6379"}
        for settings, said in (({"address": "head"}, "HOST:PORT"), ({"address": "http://h/x:1"}, "HOST:PORT"),
                               ({"address": "h:1\n"}, "HOST:PORT"), ({"address": None}, "HOST:PORT"),
                               ({"address": "$(x):1"}, "HOST:PORT"),
                               ({"cpu": 0}, "cpu must be"), ({"cpu": -1}, "cpu must be"), ({"cpu": "4"}, "cpu must be"),
                               ({"gpu": -1}, "gpu must be"), ({"gpu": 0.5}, "whole number"),
                               ({"memory_gb": float("nan")}, "memory_gb must be"),
                               ({"cpu": 1, "resources": {"cpu": 2}}, "cpu is given twice"),
                               ({"resources": {"tpu": 2}}, "got tpu"), ({"resources": "4"}, "must be a mapping"),
                               ({"max_nodes": 0}, "max_nodes must be at least 1"),
                               ({"min_nodes": 3, "max_nodes": 2}, "at least min_nodes")):
            with self.assertRaisesRegex(ComputeTargetException, said):
                RayCompute.attach_configuration(**dict(good, **settings))

    def test_names_and_configurations_are_checked_before_the_service_is_asked(self):
        configuration = RayCompute.attach_configuration("head:6379")
        for name in ("local", "../x", "", None):
            with self.assertRaises(UserErrorException):
                ComputeTarget.attach(None, name, configuration)
        with self.assertRaisesRegex(UserErrorException, "attach_configuration must come from"):
            ComputeTarget.attach(None, "cluster", {"address": "head:6379"})


class ModelFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.makedirs(os.path.join(self.folder, "outputs", "model", "deep"))
        for name in ("a", "deep/b"):
            with open(os.path.join(self.folder, "outputs", "model", name), "w") as file:
                file.write(name)

    def test_the_last_segment_stays_as_root(self):
        files = _local_files(os.path.join(self.folder, "outputs", "model"))
        self.assertEqual(sorted(name for name, _ in files), ["model/a", "model/deep/b"])
        alone = _local_files(os.path.join(self.folder, "outputs", "model", "a"))
        self.assertEqual([name for name, _ in alone], ["a"])

    def test_child_paths_choose(self):
        files = _local_files(os.path.join(self.folder, "outputs", "model"), ["deep"])
        self.assertEqual([name for name, _ in files], ["model/deep/b"])

    def test_child_paths_stay_inside(self):
        for child in ("../other", "/etc"):
            with self.assertRaisesRegex(UserErrorException, "lies outside of model_path"):
                _local_files(os.path.join(self.folder, "outputs", "model"), [child])

    def test_links_are_followed_and_pipes_are_no_files(self):
        model = os.path.join(self.folder, "outputs", "model")
        os.symlink(os.path.join(model, "deep"), os.path.join(model, "linked"))
        os.symlink("nowhere", os.path.join(model, "dangling"))
        os.mkfifo(os.path.join(model, "pipe"))
        self.assertEqual(sorted(name for name, _ in _local_files(model)), ["model/a", "model/deep/b", "model/linked/b"])
        with self.assertRaisesRegex(UserErrorException, "neither a file nor a folder"):
            _local_files(os.path.join(model, "pipe"))

    def test_what_is_not_there_is_named(self):
        with self.assertRaisesRegex(FileNotFoundError, "model_path"):
            _local_files(os.path.join(self.folder, "absent"))

    def test_a_download_returns_the_folder_or_the_one_file(self):
        self.assertEqual(_common_root(["t/model/a", "t/model/deep/b"]), os.path.join("t", "model"))
        self.assertEqual(_common_root(["t/model/a"]), "t/model/a")

    def test_a_model_cannot_write_outside_of_its_target(self):
        for path in ("../x", "/etc/x", "a/../../x", "a\0"):
            with self.assertRaisesRegex(UserErrorException, "leaves its folder"):
                _target_paths([[path, "0" * 64, 1, 0o644]], "t")

    def test_outside_of_a_run_a_local_path_of_that_name_is_the_model(self):
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(os.path.join(self.folder, "outputs"))
        self.assertEqual(Model.get_model_path("model"), "model")
        with self.assertRaisesRegex(ModelNotFoundException, "absent"):
            Model.get_model_path("absent")

    def test_resources_are_numbers(self):
        self.assertEqual(ResourceConfiguration(1, 0.5).serialize(), {"cpu": 1, "memoryInGB": 0.5, "gpu": None})
        with self.assertRaisesRegex(WebserviceException, "cpu"):
            ResourceConfiguration(cpu="1")


if __name__ == "__main__":
    unittest.main()
