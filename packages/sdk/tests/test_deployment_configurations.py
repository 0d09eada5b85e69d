import contextlib
import io
import os
import tempfile
import unittest

from azureml.core.webservice import AciWebservice, AksEndpoint, AksWebservice, LocalWebservice
from azureml.core.webservice import aci, aks
from azureml.core.webservice._configuration import check_name
from azureml.exceptions import WebserviceException


class Settings(unittest.TestCase):
    def refused(self, make, settings, said):
        with self.assertRaisesRegex(WebserviceException, said):
            make(**settings)

    def test_only_what_was_given_is_sent(self):
        self.assertEqual(AciWebservice.deploy_configuration()._to_wire(), {})
        self.assertEqual(AciWebservice.deploy_configuration(cpu_cores=1, auth_enabled=False, tags={"a": 1})._to_wire(),
                         {"cpu_cores": 1, "auth_enabled": False})
        self.assertEqual(AksWebservice.deploy_configuration(num_replicas=2, primary_key="k")._to_wire(),
                         {"num_replicas": 2, "primary_key": "k"})
        self.assertEqual(LocalWebservice.deploy_configuration(6789)._to_wire(), {"port": 6789})
        self.assertEqual(AksEndpoint.deploy_configuration(traffic_percentile=40, version_name="a")._to_wire(),
                         {"traffic_percentile": 40, "version_name": "a"})

    def test_amounts_that_cannot_be_are_refused_by_name(self):
        for name in ("cpu_cores", "memory_gb"):
            for value in (0, -1, "1", True, float("nan"), float("inf")):
                self.refused(AciWebservice.deploy_configuration, {name: value}, name + " must be")
        for name in ("num_replicas", "autoscale_max_replicas", "scoring_timeout_ms", "replica_max_concurrent_requests"):
            for value in (0, -1, 1.5, "2"):
                self.refused(AksWebservice.deploy_configuration, {name: value}, name + " must be a whole number")
        for value in (0, 65536, "80", 1.5):
            self.refused(LocalWebservice.deploy_configuration, {"port": value}, "port must be")

    def test_settings_that_contradict_each_other_are_refused(self):
        for settings, said in (
                ({"autoscale_enabled": True, "num_replicas": 2}, "give one of them"),
                ({"autoscale_enabled": False, "autoscale_max_replicas": 2}, "needs autoscale_enabled=True"),
                ({"num_replicas": 2, "autoscale_min_replicas": 1}, "no num_replicas"),
                ({"autoscale_min_replicas": 3, "autoscale_max_replicas": 2}, "at most autoscale_max_replicas"),
                ({"autoscale_target_utilization": 101}, "at most 100"),
                ({"auth_enabled": True, "token_auth_enabled": True}, "exclude each other"),
                ({"cpu_cores": 2, "cpu_cores_limit": 1}, "cpu_cores_limit must be at least"),
                ({"namespace": "Up"}, "namespace must"), ({"namespace": "a\n"}, "namespace must")):
            self.refused(AksWebservice.deploy_configuration, settings, said)
        for settings, said in (({"ssl_enabled": True}, "ssl_enabled needs"), ({"ssl_cname": "a"}, "ssl_enabled=True"),
                               ({"vnet_name": "v"}, "subnet_name is missing"),
                               ({"cmk_key_name": "k"}, "go together")):
            self.refused(AciWebservice.deploy_configuration, settings, said)
        self.refused(AksEndpoint.deploy_configuration, {"traffic_percentile": 101}, "traffic_percentile")

    def test_certificates_are_sent_as_texts_and_never_as_paths(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("cert.pem", "key.pem")]
            given = {"ssl_enabled": True, "ssl_cname": "a.b", "ssl_cert_pem_file": paths[0],
                     "ssl_key_pem_file": paths[1]}
            self.refused(AciWebservice.deploy_configuration, given, "names no file")
            for path in paths:
                with open(path, "w") as file:
                    file.write("pem of " + os.path.basename(path))
            sent = AciWebservice.deploy_configuration(**given)._to_wire()
            self.assertEqual(sent, {"ssl_enabled": True, "ssl_cname": "a.b", "ssl_cert_pem": "pem of cert.pem",
                                    "ssl_key_pem": "pem of key.pem"})
            with open(paths[1], "wb") as file:
                file.write(b"\xff\x00")
            with self.assertRaisesRegex(WebserviceException, "ssl_key_pem_file .* cannot be read"):
                AciWebservice.deploy_configuration(**given)._to_wire()

    def test_what_was_set_can_be_printed(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            AksWebservice.deploy_configuration(cpu_cores=1, num_replicas=2).print_deploy_configuration()
        self.assertEqual(said.getvalue(), "cpu_cores: 1\nnum_replicas: 2\n")

    def test_names_of_web_services(self):
        for name in ("abc", "a-1", "a" * 32):
            check_name(name)
        for name in ("ab", "a" * 33, "Abc", "1ab", "ab-", "a_b", "a/b", "../x", "abc\n", "abc\0", "", None, 5):
            with self.assertRaisesRegex(WebserviceException, "web service name"):
                check_name(name)


class Parts(unittest.TestCase):
    def test_each_survives_serialize_and_deserialize(self):
        for part in (aks.AutoScaler(True, 3, 1, 10, 70), aks.DataCollection(False, True),
                     aks.LivenessProbeRequirements(1, 2, 3, 4, 5), aks.ContainerResourceRequirements(1, 2, 3, 4, 5),
                     aks.AksServiceAccessToken("t", "Bearer", 1, 2), aci.ContainerResourceRequirements(1, 2),
                     aci.EncryptionProperties("u", "k", "v"), aci.VnetConfiguration("v", "s")):
            again = type(part).deserialize(part.serialize())
            self.assertEqual((type(again), vars(again)), (type(part), vars(part)))
        self.assertIsNone(aks.AutoScaler.deserialize(None))

    def test_a_value_that_is_missing_is_named(self):
        with self.assertRaisesRegex(WebserviceException, "missing subnetName"):
            aci.VnetConfiguration.deserialize({"vnetName": "v"})
        self.assertIsNone(aks.ContainerResourceRequirements.deserialize({"cpu": 1, "memoryInGB": 2}).gpu)

    def test_a_token_is_not_shown_by_repr(self):
        self.assertNotIn("secret", repr(aks.AksServiceAccessToken("secret", "Bearer", 1, 2)))


if __name__ == "__main__":
    unittest.main()
