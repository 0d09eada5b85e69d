"""A Metaflow flow of one step, started as its users do; a count asks for runs a second."""

import subprocess
import sys

from answering import answer, rate, seconds

count = int(sys.argv[1]) if len(sys.argv) > 1 else 0
with open("flow.py", "w") as sink:
    sink.write(
        "from metaflow import FlowSpec, step\n"
        "class Bench(FlowSpec):\n"
        "    @step\n    def start(self):\n        print('first line')\n        self.next(self.end)\n"
        "    @step\n    def end(self):\n        pass\n"
        "if __name__ == '__main__':\n    Bench()\n"
    )


def run_whole():
    subprocess.run([sys.executable, "flow.py", "run"], check=True, stdout=subprocess.DEVNULL)


def until_first_line():
    with subprocess.Popen([sys.executable, "flow.py", "run"], stdout=subprocess.PIPE, text=True) as process:
        taken = seconds(lambda: next(line for line in process.stdout if "first line" in line))
        process.stdout.read()
    return taken


answer((lambda: rate(run_whole, count)) if count else until_first_line)
