"""A `runyard` for tests of discovery: `serve` answers /health and /shutdown from the home it is given.

STAND_IN_VERSION, STAND_IN_WIRE and STAND_IN_PROBLEM say how it is to behave.
"""

import os
import sys

HOME = os.environ.get("RUNYARD_HOME", "")
VERSION = os.environ.get("STAND_IN_VERSION", "0.1.0")
if sys.argv[1:] == ["--version"]:  # asked before each start; what only a service needs takes most of the time
    print("runyard " + VERSION)
    sys.exit()

import fcntl
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer


def in_home(name):
    return os.path.join(HOME, name)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body waits 40 ms for the receipt of the headers

    def do_GET(self):
        facts = {"version": VERSION, "pid": os.getpid(), "arguments": sys.argv[1:], "variables": sorted(os.environ),
                 "shares_files": True}
        self.answer(facts)

    def do_POST(self):
        self.answer({})
        if self.path == "/api/v1/shutdown":
            os.remove(in_home("service.json"))
            threading.Thread(target=self.server.shutdown).start()

    def answer(self, body):
        content = json.dumps(body).encode("utf-8")
        self.send_response(200)
        self.send_header("X-Runyard-Wire", os.environ.get("STAND_IN_WIRE", "1"))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        """Quiet."""


class Server(HTTPServer):
    def process_request(self, request, address):
        threading.Thread(target=self.finish_request, args=(request, address), daemon=True).start()


def serve():
    if os.environ.get("STAND_IN_PROBLEM"):
        write("start-error.json", {"problem": os.environ["STAND_IN_PROBLEM"], "hint": "Mend it."})
        return 1
    lock = open(in_home("service.lock"), "a")
    fcntl.flock(lock, fcntl.LOCK_EX)
    server = Server(("127.0.0.1", 0), Handler)
    with open(in_home("starts"), "a") as starts:
        starts.write("{}\n".format(os.getpid()))
    with open("/proc/sys/kernel/random/boot_id") as source:
        boot = source.read().strip()
    write("service.json", {
        "url": "http://127.0.0.1:{}".format(server.server_port), "token": "secret", "pid": os.getpid(),
        "host": os.uname().nodename, "boot": boot, "version": VERSION, "wire": os.environ.get("STAND_IN_WIRE", "1"),
        "kept": "--keep" in sys.argv})
    server.serve_forever()
    return 0


def write(name, body):
    with open(in_home(name + ".part"), "w") as sink:
        json.dump(body, sink)
    os.replace(in_home(name + ".part"), in_home(name))


if __name__ == "__main__":
    sys.exit(serve())
