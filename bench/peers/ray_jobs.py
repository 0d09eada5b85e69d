"""Ray's job API on a cluster of this machine; a count asks for runs a second."""

import atexit
import sys
import time

import ray
from answering import answer, rate, seconds
from ray.job_submission import JobStatus, JobSubmissionClient

count = int(sys.argv[1]) if len(sys.argv) > 1 else 0
context = ray.init(num_cpus=2, include_dashboard=True, dashboard_host="127.0.0.1", log_to_driver=False)
atexit.register(ray.shutdown)
client = JobSubmissionClient("http://" + context.dashboard_url)
ENTRY = sys.executable + " -c \"print('first line')\""
DONE = (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.STOPPED)


def until_first_line():
    job = client.submit_job(entrypoint=ENTRY)
    while "first line" not in client.get_job_logs(job):
        time.sleep(0.01)


def run_whole():
    job = client.submit_job(entrypoint=ENTRY)
    while client.get_job_status(job) not in DONE:
        time.sleep(0.01)


answer((lambda: rate(run_whole, count)) if count else (lambda: seconds(until_first_line)))
