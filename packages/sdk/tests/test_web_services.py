import contextlib
import io
import json
import os
import tempfile
import unittest

from azureml.core import Environment
from azureml.core.model import InferenceConfig, Model
from azureml.core.webservice import AciWebservice, AksEndpoint, AksWebservice, LocalWebservice, UnknownWebservice
from azureml.core.webservice import Webservice
from azureml.exceptions import WebserviceException
from tests.stand_in_service import StandInService


def record(**changes):
    made = {"id": "1", "name": "web", "type": "ACI", "version": 1, "state": "Healthy", "step": "", "revision": 1,
            "wanted_revision": 1, "failed_revision": 0, "error": None, "scoring_uri": "", "swagger_uri": "", "port": 1,
            "models": ["net:1"], "inference": None, "config": {}, "auth_enabled": False, "token_auth_enabled": False,
            "description": "", "tags": {}, "properties": {}, "image_id": None, "created_at": "2026-01-02T03:04:05Z",
            "updated_at": "2026-01-02T03:04:05.5Z", "replicas": 1, "wanted_replicas": 1, "notes": [], "lock": None}
    return dict(made, **changes)


def endpoint_record(*names):
    """Of an endpoint whose first version is the default."""
    versions = {name: record(name=name, type="AKS", traffic_percentile=40, is_default=name == names[0],
                             version_type="Treatment") for name in names}
    return record(type="AKS", versions=versions)


def deploying(version, step="init", **changes):
    return record(version=version, state="Transitioning", step=step, revision=0, **changes)


TROUBLE = {"problem": "ValueError: odd weights", "hint": "Train anew.", "step": "init",
           "traceback": "Traceback of init", "logs": "line before"}


class WithService(unittest.TestCase):
    def setUp(self):
        self.service = StandInService()
        self.addCleanup(self.service.close)
        self.workspace = self.service.workspace

    def has(self, *records):
        self.service.answers["GET services/web"] = list(records)
        return Webservice(self.workspace, "web")

    def said(self, call):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            call()
        return said.getvalue()


class Objects(WithService):
    def test_the_class_is_that_of_the_type(self):
        for kind, expected in (("ACI", AciWebservice), ("AKS", AksWebservice), ("Local", LocalWebservice),
                               ("Newer", UnknownWebservice)):
            self.assertIs(type(self.has(record(type=kind))), expected)
        self.assertIs(type(self.has(endpoint_record("a"))), AksEndpoint)
        with self.assertRaisesRegex(WebserviceException, "is of type Local, so it is no AciWebservice"):
            self.has(record(type="Local"))
            AciWebservice(self.workspace, "web")

    def test_one_that_is_not_there_is_told_with_those_that_are(self):
        self.service.answers["GET services"] = [{"services": [record(name="other")]}]
        with self.assertRaisesRegex(WebserviceException, "WebserviceNotFound: .* Known: 'other'"):
            Webservice(self.workspace, "web")

    def test_times_are_times_and_serialize_writes_json(self):
        found = self.has(record(type="AKS", config={"num_replicas": 2, "autoscale_enabled": False}))
        self.assertEqual((found.created_time.year, found.updated_time.microsecond), (2026, 500000))
        self.assertEqual(json.loads(json.dumps(found.serialize()))["createdTime"], "2026-01-02T03:04:05+00:00")
        self.assertEqual((found.autoscaler.autoscale_enabled, found.state), (False, "Healthy"))

    def test_an_endpoint_has_versions_that_are_changed_by_themselves(self):
        endpoint = self.has(endpoint_record("a", "b"))
        self.assertEqual({name: one.traffic_percentile for name, one in endpoint.versions.items()}, {"a": 40, "b": 40})
        self.assertEqual([one.is_default for one in endpoint.versions.values()], [True, False])
        with self.assertRaisesRegex(WebserviceException, "has no version 'c'; its versions are 'a', 'b'"):
            endpoint.update_version("c", cpu_cores=1)
        self.service.answers["PATCH services/web/versions/b"] = [endpoint_record("a", "b")]
        endpoint.update_version("b", cpu_cores=2, is_default=True)
        sent = self.service.bodies("PATCH", "services/web/versions/b")[0]
        self.assertEqual(sent["config"], {"cpu_cores": 2, "is_default": True})

    def test_versions_of_an_endpoint_are_checked_before_anything_is_sent(self):
        endpoint = self.has(endpoint_record("a"))
        for arguments, said in (({"version_name": "Big"}, "version_name"), ({"traffic_percentile": 101}, "at most 100"),
                                ({"models": "net"}, "models must be a list")):
            with self.assertRaisesRegex(WebserviceException, said):
                endpoint.create_version(**dict({"version_name": "b", "models": ["net:1"]}, **arguments))
        self.assertEqual(self.service.bodies("POST", "services/web/versions"), [])


class Waiting(WithService):
    def waiting(self, first, *later):
        service = self.has(first)
        self.service.answers["GET services/web/wait"] = list(later)
        return service

    def test_the_lines_are_those_of_v1(self):
        service = self.waiting(deploying(1), deploying(2), record(version=3))
        said = self.said(lambda: service.wait_for_deployment(show_output=True))
        self.assertEqual(said, 'Running..\nSucceeded\nACI service creation operation finished, operation "Succeeded"\n')
        self.assertEqual(service.state, "Healthy")
        self.assertEqual([query for _, path, query, _ in self.service.asked if path.endswith("wait")],
                         ["timeout=1.0&version=1", "timeout=1.0&version=2"])

    def test_nothing_is_printed_unless_asked_for(self):
        service = self.waiting(deploying(1), record(version=2))
        self.assertEqual(self.said(service.wait_for_deployment), "")

    def test_building_an_environment_is_told_with_its_log_and_notes(self):
        notes = ["tensorflow 1.13.0 is served by 1.13.2."]
        service = self.waiting(deploying(1, "environment", notes=notes), deploying(1, "environment", notes=notes),
                               record(version=2, notes=notes))
        self.service.answers["GET services/web/logs"] = [
            b"Resolved 3 packages\nnote: tensorflow 1.13.0 is served by 1.13.2.\n", b""]
        said = self.said(lambda: service.wait_for_deployment(show_output=True))
        self.assertEqual(said, "tensorflow 1.13.0 is served by 1.13.2.\nRunning.\nResolved 3 packages\n"
                               "Running.\nSucceeded\n"
                               'ACI service creation operation finished, operation "Succeeded"\n')
        self.assertIn(("GET", "services/web/logs", "offset=65"), [asked[:3] for asked in self.service.asked])

    def test_an_environment_of_the_cache_adds_no_line(self):
        service = self.waiting(deploying(1, "environment"), deploying(2), record(version=3))
        self.assertTrue(self.said(lambda: service.wait_for_deployment(True)).startswith("Running..\nSucceeded\n"))

    def test_an_update_does_not_tell_the_log_of_what_was_before(self):
        building = record(wanted_revision=2, step="environment")
        service = self.waiting(building, building, record(version=2, revision=2, wanted_revision=2))
        self.service.answers["GET services/web/logs"] = [b"\n", b"Resolved 1 package\n", b""]
        self.assertIn("Resolved 1 package\nRunning.\n", self.said(lambda: service.wait_for_deployment(True)))
        self.assertEqual([query for _, path, query, _ in self.service.asked if path.endswith("logs")],
                         ["offset=-1", "offset=1", "offset=19"])

    def test_a_failure_is_told_whole(self):
        service = self.waiting(deploying(1), record(version=2, state="Failed", revision=0, failed_revision=1,
                                                    error=TROUBLE))
        with self.assertRaises(WebserviceException) as caught:
            service.wait_for_deployment()
        for part in ("'web' failed (step: init), current service state: Failed", "ValueError: odd weights",
                     "Train anew.", "Traceback of init", "get_logs()", "line before"):
            self.assertIn(part, caught.exception.message)
        self.assertNotIn("answers on", caught.exception.message)
        self.assertEqual((service.state, service.error["message"]), ("Failed", "ValueError: odd weights"))

    def test_an_update_that_fails_says_that_the_old_one_answers_on(self):
        service = self.waiting(record(wanted_revision=2), record(
            version=2, wanted_revision=2, failed_revision=2, error=TROUBLE))
        with self.assertRaisesRegex(WebserviceException, "deployed before answers on"):
            service.wait_for_deployment()

    def test_a_timeout_is_an_exception_that_says_how_far_it_came(self):
        service = self.waiting(deploying(1))
        with self.assertRaisesRegex(WebserviceException, r"after 0 seconds \(timeout_sec\).*Transitioning"):
            service.wait_for_deployment(timeout_sec=0)


class Asking(WithService):
    """The stand-in answers for the web service too, below /score."""

    def asked_with(self, **changes):
        return self.has(record(scoring_uri=self.service.address + "/api/v1/score", **changes))

    def test_a_text_is_posted_as_it_is_and_the_answer_is_read(self):
        self.service.answers["POST score"] = [{"said": [1, 2]}]
        self.assertEqual(self.asked_with().run('{"a": "\u00e4"}'), {"said": [1, 2]})
        self.assertEqual(self.service.asked[-1][3], '{"a": "\u00e4"}'.encode("utf-8"))

    def test_any_status_but_200_is_an_exception(self):
        for status in (400, 401, 500, 502, 503):
            self.service.answers["POST score"] = [(status, {"message": "odd"})]
            with self.assertRaisesRegex(WebserviceException, "Response Code: %d" % status) as caught:
                self.asked_with().run("1")
            self.assertEqual(caught.exception.status_code, status)
            self.assertIn('{"message": "odd"}', caught.exception.message)

    def test_an_answer_that_is_not_json_says_how_to_get_it(self):
        self.service.answers["POST score"] = [b"\xff\xd8 picture"]
        with self.assertRaisesRegex(WebserviceException, "not JSON"):
            self.asked_with().run("1")

    def test_a_key_that_was_made_anew_is_asked_for_once_more(self):
        self.service.answers["GET services/web/keys"] = [{"primary": "old", "secondary": "b"},
                                                         {"primary": "new", "secondary": "b"}]
        self.service.answers["POST score"] = [1, (401, {"message": "no"}), 2]
        service = self.asked_with(auth_enabled=True)
        self.assertEqual((service.run("1"), service.run("1")), (1, 2))
        self.assertEqual(service.get_keys(), ("new", "b"))

    def test_one_that_does_not_answer_says_why_as_far_as_its_record_knows(self):
        service = self.has(record(scoring_uri="http://127.0.0.1:9/score"))
        with self.assertRaisesRegex(WebserviceException, "does not answer.*Its state is Healthy") as caught:
            service.run("1")
        self.assertTrue(caught.exception.__suppress_context__)
        self.has(record(state="Failed", revision=0, failed_revision=1, error=TROUBLE))
        with self.assertRaisesRegex(WebserviceException, "ValueError: odd weights"):
            service.run("1")
        del self.service.answers["GET services/web"]
        with self.assertRaisesRegex(WebserviceException, "not there any more"):
            service.run("1")
        with self.assertRaisesRegex(WebserviceException, "no scoring_uri yet"):
            self.has(record()).run("1")


class Deploying(WithService):
    def setUp(self):
        super(Deploying, self).setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with open(os.path.join(folder.name, "score.py"), "w") as file:
            file.write("def init(): pass\ndef run(data): return data\n")
        self.code = InferenceConfig("score.py", source_directory=folder.name, environment=Environment("e"))
        asset = {"id": "9", "name": "net", "version": 1, "created_at": "2026-01-02T03:04:05Z", "tags": {},
                 "body": {"files": []}}
        self.service.answers["GET assets/models"] = [{"assets": [asset]}]
        self.model = Model(self.workspace, "net")

    def test_contents_that_the_service_lacks_are_sent_and_the_deployment_again(self):
        missing = [entry[1] for entry in self.code._inference()[0]["files"]]
        self.service.answers["GET health"] = [{"shares_files": False}]
        self.service.answers["POST blobs/pack"] = [{}]
        self.service.answers["POST services"] = [
            (409, {"code": "blobs_missing", "problem": "p", "hint": "", "facts": {"sha256": missing}}), deploying(1)]
        service = Model.deploy(self.workspace, "web", [self.model], self.code)
        first, second = self.service.bodies("POST", "services")
        self.assertEqual((first, service.state), (second, "Transitioning"))
        self.assertEqual((first["type"], first["models"], first["config"]), ("ACI", ["net:1"], {}))
        self.assertIn("POST blobs/pack", ["%s %s" % asked[:2] for asked in self.service.asked])

    def test_what_the_service_refuses_is_a_webservice_exception_with_its_status(self):
        self.service.answers["POST services"] = [
            (409, {"code": "already_exists", "problem": "There is 'web'.", "hint": "Overwrite it.", "facts": {}})]
        with self.assertRaisesRegex(WebserviceException, "There is 'web'. Overwrite it.") as caught:
            Model.deploy(self.workspace, "web", [self.model], self.code)
        self.assertEqual(caught.exception.status_code, 409)

    def test_a_local_service_of_the_same_name_is_replaced_and_no_other(self):
        for present, overwrites in ((record(type="Local"), True), (record(), False)):
            self.service.answers["GET services/web"] = [present]
            self.service.answers["POST services"] = [deploying(1)]
            Model.deploy(self.workspace, "web", [self.model], self.code, LocalWebservice.deploy_configuration(80))
            self.assertEqual(self.service.bodies("POST", "services")[-1]["overwrite"], overwrites)

    def test_an_update_sends_what_was_given_and_tags_in_place_of_the_old_ones(self):
        service = self.has(record(type="AKS", tags={"old": "1"}))
        self.service.answers["PATCH services/web"] = [record(type="AKS")]
        service.update(cpu_cores=2, tags={"new": 2}, models=[self.model], autoscale_enabled=False)
        sent = self.service.bodies("PATCH", "services/web")[0]
        del sent["submitter"]
        self.assertEqual(sent, {"config": {"cpu_cores": 2, "autoscale_enabled": False}, "models": ["net:1"],
                                "tags": {"old": None, "new": "2"}})
        with self.assertRaisesRegex(WebserviceException, "takes no colour"):
            service.update(colour="red")
        with self.assertRaisesRegex(WebserviceException, "num_replicas must be"):
            service.update(num_replicas=0)

    def test_what_a_deployment_is_made_of_can_be_printed(self):
        config = AciWebservice.deploy_configuration(cpu_cores=1)
        said = self.said(lambda: Model.print_configuration([self.model], self.code, config, None))
        self.assertEqual(said, "Models: net:1\nEntry script: score.py\nEnvironment: e\ncpu_cores: 1\n")

    def test_notes_of_the_service_are_printed_once_when_it_is_deployed(self):
        self.service.answers["POST services"] = [record(notes=["Served by 1.13.2."])]
        made = []
        said = self.said(lambda: made.append(Model.deploy(self.workspace, "web", [self.model], self.code)))
        self.assertEqual(said, "Served by 1.13.2.\n")
        self.service.answers["GET services/web"] = [record(notes=["Served by 1.13.2."])]
        self.assertNotIn("1.13.2", self.said(lambda: made[0].wait_for_deployment(show_output=True)))


if __name__ == "__main__":
    unittest.main()
