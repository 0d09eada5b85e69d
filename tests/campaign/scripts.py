"""What runs do in the campaign. Each call that returned is noted in a file of its own, fsynced, outside of the home."""

NOTES = """
import os, sys, time

class Notes:
    def __init__(self, folder, name):
        self._file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, *words):
        os.write(self._file, (" ".join(map(str, words)) + "\\n").encode())
        os.fsync(self._file)

    def raised(self, error):
        self.add("raised", getattr(error, "errno", None) or 0, type(error).__name__, " ".join(str(error).split()))
"""

TRAIN = (
    NOTES
    + """
import argparse
from azureml.core import Run

parser = argparse.ArgumentParser()
for name in ("--notes", "--points", "--pause", "--exit", "--data"):
    parser.add_argument(name)
given = parser.parse_args()
run = Run.get_context()
notes = Notes(given.notes, run.id)
notes.add("pid", os.getpid())

def note_and_print(kind, error, trace):
    notes.raised(error)
    sys.__excepthook__(kind, error, trace)

sys.excepthook = note_and_print
for step in range(int(given.points)):
    run.log("point", step)
    notes.add("point", step)
    sys.stdout.write("line %d\\n" % step)
    sys.stdout.flush()
    notes.add("line", step)
    if given.data and step % 20 == 0:
        for name in sorted(os.listdir(given.data)):
            with open(os.path.join(given.data, name)) as source:
                assert source.read() == "content of " + name, name
    time.sleep(float(given.pause))
os.makedirs("outputs", exist_ok=True)
with open("outputs/result.txt", "w") as sink:
    sink.write(run.id)
notes.add("end", given.exit)
sys.exit(int(given.exit))
"""
)

SCORE = """
import os

def init():
    with open({pids!r}, "a") as sink:
        sink.write("%d\\n" % os.getpid())

def run(body):
    return "scored"
"""

CLIENT = (
    NOTES
    + """
import random, tempfile
from azureml.core import Dataset, Environment, Experiment, ScriptRunConfig, Workspace
from azureml.train.hyperdrive import HyperDriveConfig, PrimaryMetricGoal, RandomParameterSampling, choice

folder, source, number, most = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
notes = Notes(folder, "client-" + number)
notes.add("pid", os.getpid())
ws = Workspace.create("campaign", exist_ok=True, show_output=False)
experiment = Experiment(ws, "campaign")
python = Environment("here")
python.python.user_managed_dependencies = True
python.python.interpreter_path = sys.executable
dice = random.Random(os.getpid())

def script(**more):
    arguments = {"--notes": folder, "--points": dice.choice([20, 60, 150]), "--pause": dice.choice([0, 0.005, 0.02]),
                 "--exit": dice.choice([0, 0, 0, 3])}
    arguments.update(more)
    words = [word for pair in arguments.items() for word in pair]
    return ScriptRunConfig(source, "train.py", arguments=words, environment=python)

def plain():
    return experiment.submit(script())

def mounted():
    data = Dataset.get_by_name(ws, "campaign").as_named_input("data").as_mount()
    return experiment.submit(script(**{"--data": data}))

def sweep():
    return experiment.submit(HyperDriveConfig(
        run_config=ScriptRunConfig(source, "train.py", environment=python, arguments=[
            "--notes", folder, "--pause", 0.005, "--exit", 0]),
        hyperparameter_sampling=RandomParameterSampling({"--points": choice(20, 40, 60)}),
        primary_metric_name="point", primary_metric_goal=PrimaryMetricGoal.MAXIMIZE,
        max_total_runs=4, max_concurrent_runs=2))

def interactive():
    run = experiment.start_logging(snapshot_directory=None)
    own = Notes(folder, run.id)
    own.add("interactive", os.getpid())
    try:
        for step in range(100):
            run.log("point", step)
            own.add("point", step)
            time.sleep(0.005)
        own.add("completing")
        run.complete()
    except Exception as error:
        own.raised(error)
        raise
    own.add("end", 0)
    return run

going = []
while not os.path.exists(os.path.join(folder, "enough")):
    kind = dice.choice([plain, plain, plain, mounted, mounted, interactive, sweep])
    run = kind()
    notes.add("submitted", run.id, kind.__name__)
    going.append(run)
    while len(going) >= most and not os.path.exists(os.path.join(folder, "enough")):
        going = [one for one in going if one.get_status() not in ("Completed", "Failed", "Canceled")]
        time.sleep(0.2)
notes.add("end", 0)
"""
)
