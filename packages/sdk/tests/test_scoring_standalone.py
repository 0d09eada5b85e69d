"""The folder of a packaged model, served by the standard library alone."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from tests.scoring_worker import SOURCE, write_files

CODE = '''
import os, threading

def init():
    global where
    where = threading.current_thread()

def run(data):
    with open(os.path.join(os.environ["AZUREML_MODEL_DIR"], "m.txt")) as source:
        return [data, source.read(), threading.current_thread() is where]
'''
PACKAGE = {"scorer": "script", "service": "packaged", "entry_script": "score.py",
           "models": [{"name": "m", "version": 1}]}


class Standalone(unittest.TestCase):
    def start(self, code):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        write_files(folder.name, {"azureml-app/score.py": code, "azureml-models/m/1/m.txt": "weights",
                                  "package.json": json.dumps(PACKAGE)})
        process = subprocess.Popen(
            [sys.executable, "-m", "runyard_sdk.scoring.standalone", "--port", "0", "package.json"], cwd=folder.name,
            env={"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"], "HOME": folder.name}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def serve(self, code=CODE):
        self.process = self.start(code)
        said = self.process.stdout.readline().decode("utf-8")
        self.connection = http.client.HTTPConnection("127.0.0.1", int(re.search(r":(\d+)/score", said).group(1)))
        self.addCleanup(self.connection.close)

    def ask(self, method, path, body=None, **headers):
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        return response.status, response.read().decode("utf-8")

    def test_answers_as_a_web_service_does(self):
        self.serve()
        self.assertEqual(self.ask("GET", "/"), (200, "Healthy"))
        status, body = self.ask("POST", "/score", "{}")
        self.assertEqual((status, json.loads(body)), (200, ["{}", "weights", True]))
        self.assertEqual(json.loads(self.ask("GET", "/score?a=1")[1])[0], '{"a": "1"}')
        status, body = self.ask("GET", "/swagger.json?version=3")
        self.assertEqual((status, json.loads(body)["openapi"]), (200, "3.0.3"))

    def test_refuses_what_it_does_not_take(self):
        self.serve()
        self.assertEqual(self.ask("GET", "/elsewhere")[0], 404)
        self.assertEqual(self.ask("PUT", "/score", "{}")[0], 405)
        self.assertEqual(self.ask("POST", "/score", b"\xff")[0], 400)
        self.assertEqual(self.ask("POST", "/score", b"", **{"Content-Length": str(200 << 20)})[0], 413)

    def test_refuses_a_length_that_two_readers_would_read_differently(self):
        self.serve()
        for lengths in ((b"2", b"3"), (b"\xb2",), (b"+2",), (b"",)):
            with socket.create_connection(("127.0.0.1", self.connection.port), 20) as client:
                lines = b"".join(b"Content-Length: %s\r\n" % length for length in lengths)
                client.sendall(b"POST /score HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n{} ")
                self.assertIn(b" 400 ", client.recv(1000).splitlines()[0])

    def test_ends_when_told_to(self):
        self.serve()
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(20), 0)

    def test_says_why_it_does_not_start(self):
        process = self.start("def init(): raise ValueError('bad weights')\ndef run(data): pass")
        said = process.stdout.read().decode("utf-8")
        self.assertEqual(process.wait(20), 1)
        self.assertIn("init() of score.py failed: ValueError: bad weights", said)


if __name__ == "__main__":
    unittest.main()
