import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(os.path.dirname(HERE), "src")
ASK = "from runyard_sdk.client import Client; import json; print(json.dumps(Client().get('/health')))"


class Finding(unittest.TestCase):
    """Each client is a process of its own, with a home and a PATH of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home, self.programs = os.path.join(folder.name, "home"), os.path.join(folder.name, "bin")
        os.mkdir(self.home)
        os.mkdir(self.programs)
        self.addCleanup(self.end_services)

    def install(self, folder=None):
        """Put the stand-in `runyard` into a folder; its path."""
        path = os.path.join(folder or self.programs, "runyard")
        with open(os.path.join(HERE, "stand_in_runyard.py")) as source, open(path, "w") as sink:
            sink.write("#!{} -S\n".format(sys.executable) + source.read())
        os.chmod(path, stat.S_IRWXU)
        return path

    def begin(self, code=ASK, **variables):
        environment = {"PYTHONPATH": SOURCE, "RUNYARD_HOME": self.home, "PATH": self.programs, "HOME": self.home}
        return subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=dict(environment, **variables))

    def ask(self, code=ASK, **variables):
        """What a client process got: the facts of the service, or the last lines of its error."""
        out, err = self.begin(code, **variables).communicate()
        return json.loads(out.decode("utf-8")) if out else err.decode("utf-8")

    def service(self):
        with open(os.path.join(self.home, "service.json")) as source:
            return json.load(source)

    def starts(self):
        with open(os.path.join(self.home, "starts")) as source:
            return [int(line) for line in source]

    def end_services(self):
        if os.path.exists(os.path.join(self.home, "starts")):
            for pid in self.starts():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def test_without_runyard_one_error_says_what_to_install_and_run(self):
        said = self.ask()
        self.assertIn("from the files of a release", said)
        self.assertIn("runyard up\n", said)
        self.assertIn(self.home, said)

    def test_it_is_started_when_it_is_on_the_path(self):
        self.install()
        facts = self.ask()
        self.assertEqual(facts["arguments"], ["serve", "--on-demand"])
        self.assertNotIn("PYTHONPATH", facts["variables"])

    def test_it_is_started_from_the_recorded_path(self):
        elsewhere = os.path.join(self.home, "elsewhere")
        os.mkdir(elsewhere)
        with open(os.path.join(self.home, "runyard-path"), "w") as sink:
            sink.write(self.install(elsewhere) + "\n")
        self.assertEqual(self.ask()["arguments"], ["serve", "--on-demand"])

    def test_the_service_that_a_scoring_script_starts_is_not_known_as_its_worker(self):
        names = ("AML_APP_ROOT", "AZUREML_APP_ROOT", "AZUREML_ENTRY_SCRIPT", "AZUREML_MODEL_DIR", "RUNYARD_MODELS_ROOT",
                 "RUNYARD_SERVICE", "RUNYARD_WORKER")
        self.install()
        started = self.ask(**{name: "of-a-worker" for name in names})["variables"]
        self.assertEqual(set(names) & set(started), set())

    def test_a_later_process_finds_the_running_one(self):
        self.install()
        self.assertEqual(self.ask()["pid"], self.ask()["pid"])

    def test_eight_processes_start_one_service(self):
        self.install()
        clients = [self.begin() for _ in range(8)]
        pids = {json.loads(client.communicate()[0].decode("utf-8"))["pid"] for client in clients}
        self.assertEqual(pids, set(self.starts()))
        self.assertEqual(len(pids), 1)

    def test_a_killed_service_is_started_again(self):
        self.install()
        first = self.ask()["pid"]
        os.kill(first, signal.SIGKILL)
        self.assertNotEqual(self.ask()["pid"], first)

    def test_a_client_survives_the_death_of_its_service(self):
        self.install()
        code = ("import os, signal; from runyard_sdk.client import Client; client = Client(); "
                "first = client.get('/health')['pid']; os.kill(first, signal.SIGKILL); "
                "print(int(client.get('/health')['pid'] != first))")
        self.assertEqual(self.ask(code), 1)

    def test_a_file_of_another_boot_is_stale(self):
        self.install()
        first = self.ask()["pid"]
        facts = dict(self.service(), boot="another")
        os.kill(first, signal.SIGKILL)
        with open(os.path.join(self.home, "service.json"), "w") as sink:
            json.dump(facts, sink)
        self.assertNotEqual(self.ask()["pid"], first)

    def test_why_it_could_not_start_is_shown_and_forgotten(self):
        self.install()
        self.assertIn("The home is on a network file system. Mend it.",
                      self.ask(STAND_IN_PROBLEM="The home is on a network file system."))
        self.assertFalse(os.path.exists(os.path.join(self.home, "start-error.json")))
        self.assertIn("pid", self.ask())

    def test_another_wire_is_told_with_both_numbers(self):
        self.install()
        self.assertIn("speaks wire 1 and the running service (0.1.0) speaks wire 2", self.ask(STAND_IN_WIRE="2"))

    def test_a_newer_sdk_restarts_an_older_service_as_it_was_kept(self):
        self.install()
        older = self.ask(STAND_IN_VERSION="0.0.9")
        with open(os.path.join(self.home, "service.json"), "r+") as file:
            facts = dict(json.load(file), kept=True)
            file.seek(0)
            file.truncate()
            json.dump(facts, file)
        newer = self.ask()
        self.assertEqual((newer["version"], newer["arguments"]), ("0.1.0", ["serve", "--keep"]))
        self.assertNotEqual(newer["pid"], older["pid"])

    def test_an_older_service_stays_where_nothing_newer_is_installed(self):
        self.install()
        first = self.ask(STAND_IN_VERSION="0.0.9")
        self.assertEqual(self.ask(STAND_IN_VERSION="0.0.9")["pid"], first["pid"])

    def test_an_older_sdk_leaves_a_newer_service_alone(self):
        self.install()
        first = self.ask(STAND_IN_VERSION="9.0")
        self.assertEqual(self.ask()["pid"], first["pid"])

    def test_a_given_address_wins_and_needs_a_token(self):
        self.install()
        self.ask()
        address = self.service()["url"]
        nobody = {"RUNYARD_HOME": os.path.join(self.home, "none"), "RUNYARD_URL": address}
        self.assertIn("RUNYARD_TOKEN is not", self.ask(**nobody))
        self.assertIn("pid", self.ask(RUNYARD_TOKEN="secret", **nobody))


if __name__ == "__main__":
    unittest.main()
