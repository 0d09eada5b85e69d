import json
import os
import signal
import subprocess
import threading

import pytest

from runyard.process_logs.output import RotatingFile
from tests.cli.conftest import RUNYARD

pytestmark = pytest.mark.slow


def lines_of(shell, *arguments):
    done = shell("logs", "-n", "0", "-o", "json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_logs_tell_where_the_service_is_and_what_became_of_runs(shell, runs):
    messages = [line["message"] for line in lines_of(shell, "--service")]
    url = json.loads(shell("status", "-o", "json").stdout)["url"]
    assert any(f"serves {shell.home} at {url}" in message for message in messages)
    of_run = lines_of(shell, "--run", runs["bad"])
    assert {"service", "agent"} <= {line["component"] for line in of_run}
    assert any(line["message"].startswith("Failed after ") for line in of_run)
    assert {line["run"] for line in of_run} == {runs["bad"]}
    assert [line["time"] for line in of_run] == sorted(line["time"] for line in of_run)


def test_requests_are_shown_when_asked_for(shell, runs):
    assert {line["component"] for line in lines_of(shell)} <= {"service", "agent", "supervisor", "gateway"}
    (first, *_) = lines_of(shell, "--access")
    assert {"method", "route", "status", "milliseconds", "caller", "request"} <= set(first)
    text = shell("logs", "--access", "-n", "1").stdout
    assert " ms " in text
    assert "/api/v1/" in text


def test_a_run_without_a_line_is_not_found(shell, runs):
    missed = shell("logs", "--run", "nope")
    assert missed.returncode == 3
    assert "'nope'" in missed.stderr


def test_levels_and_places_that_are_wrong_are_refused(shell, runs):
    refused = shell("logs", "--level", "loud")
    assert refused.returncode == 2
    assert "debug, info, warning, error" in refused.stderr
    elsewhere = shell("logs", env={**shell.variables, "RUNYARD_URL": "http://127.0.0.1:9"})
    assert elsewhere.returncode == 1
    assert "RUNYARD_URL" in elsewhere.stderr


def test_a_home_without_logs_says_so(shell, tmp_path):
    done = shell("logs", env={**shell.variables, "RUNYARD_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, "")
    assert str(tmp_path) in done.stderr


def test_following_goes_on_across_a_rotation(tmp_path):
    file = RotatingFile(tmp_path / "process-logs" / "service.jsonl", lambda lost: b"", most_bytes=1000)
    file.write(b'{"message": "there before"}\n')
    follower = subprocess.Popen(
        [str(RUNYARD), "logs", "-f", "-o", "json"],
        env={**os.environ, "RUNYARD_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    watchdog = threading.Timer(60, follower.kill)
    watchdog.start()
    try:
        assert "there before" in follower.stdout.readline()
        for number in range(20):  # a quarter of a second each
            file.write(json.dumps({"message": "x" * 100, "number": number}).encode() + b"\n")
            assert json.loads(follower.stdout.readline())["number"] == number
        assert (tmp_path / "process-logs" / "service.jsonl.1").exists()
    finally:
        watchdog.cancel()
        follower.kill()
        follower.wait()


def test_serving_in_the_foreground_tells_people_on_standard_error(home):
    serving = subprocess.Popen(
        [str(RUNYARD), "serve"],
        env={**os.environ, "RUNYARD_HOME": str(home)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert serving.stderr is not None
    watchdog = threading.Timer(60, serving.kill)
    watchdog.start()
    try:
        line = serving.stderr.readline()
        assert f"serves {home} at http://127.0.0.1:" in line
        serving.send_signal(signal.SIGTERM)
        assert "stops" in serving.stderr.readline()
        assert serving.wait(60) == 0
    finally:
        watchdog.cancel()
        serving.kill()
        serving.wait()
        serving.stderr.close()
