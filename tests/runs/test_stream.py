import threading
import time

import pytest

from runyard.runs.history.logs import streamed_log

DRIVER = "azureml-logs/70_driver_log.txt"
BUILD = "azureml-logs/20_image_build_log.txt"


@pytest.fixture
def run(client):
    return client.interactive_run(f"stream-{client.workspace}")["id"]


def end(client, run):
    client.patch(f"/runs/{run}", {"status": "Completed"})


def text_of(lines, log=DRIVER):
    return "".join(line["text"] for line in lines if line.get("log") == log)


def test_it_begins_with_the_status_and_ends_with_the_record(client, run):
    client.post(f"/runs/{run}/logs/{DRIVER}?offset=0", b"hello\n")
    end(client, run)
    lines = list(client.lines(f"/runs/{run}/stream"))
    assert lines[0] == {"status": "Completed", "message": ""}
    assert lines[1] == {"log": DRIVER, "offset": 0, "next": 6, "text": "hello\n"}
    assert lines[-1]["end"]["status"] == "Completed"


def test_a_line_is_pushed_while_the_follower_waits(client, run):
    stream = client.lines(f"/runs/{run}/stream")
    assert next(stream)["status"] == "Running"
    delays = []
    for number in range(20):
        began = time.perf_counter()
        client.post(f"/runs/{run}/logs/{DRIVER}?offset={number * 4}", b"%03d\n" % number)
        assert next(stream)["text"] == f"{number:03}\n"
        delays.append(time.perf_counter() - began)
    # Polling would show as tens of milliseconds; the median leaves out what a busy machine adds.
    assert sorted(delays)[10] < 0.1
    end(client, run)
    assert [list(line) for line in stream] == [["status", "message"], ["end"]]


def test_the_rest_of_a_log_comes_before_the_next_log(client, run):
    client.post(f"/runs/{run}/logs/{BUILD}?offset=0", b"building\n")
    stream = client.lines(f"/runs/{run}/stream")
    assert next(stream)["status"] == "Running"
    assert next(stream)["text"] == "building\n"
    client.post(f"/runs/{run}/logs/{BUILD}?offset=9", b"built\n")
    client.post(f"/runs/{run}/logs/{DRIVER}?offset=0", b"training\n")
    end(client, run)
    rest = list(stream)
    assert text_of(rest, BUILD) == "built\n"
    assert text_of(rest) == "training\n"
    assert [line["log"] for line in rest if "log" in line] == [BUILD, DRIVER]


def test_a_broken_connection_goes_on_where_it_was(client, run):
    client.post(f"/runs/{run}/logs/{BUILD}?offset=0", b"building\n")
    client.post(f"/runs/{run}/logs/{DRIVER}?offset=0", b"one\ntwo\n")
    end(client, run)
    rest = list(client.lines(f"/runs/{run}/stream?log={DRIVER}&offset=4"))
    assert [line["text"] for line in rest if "log" in line] == ["two\n"]
    from_the_first = list(client.lines(f"/runs/{run}/stream?log={BUILD}&offset=0"))
    assert [line["log"] for line in from_the_first if "log" in line] == [BUILD, DRIVER]
    tail = list(client.lines(f"/runs/{run}/stream?tail=4"))
    assert text_of(tail) == "two\n"


def test_text_is_cut_at_characters_and_bytes_that_are_none_are_replaced(client, run):
    data = "ä€𝄞".encode() + b"\xff\xfe" + "é".encode()
    stream = client.lines(f"/runs/{run}/stream")
    next(stream)
    for offset in range(len(data)):
        client.post(f"/runs/{run}/logs/{DRIVER}?offset={offset}", data[offset : offset + 1])
    end(client, run)
    lines = [line for line in stream if "log" in line]
    assert text_of(lines) == data.decode("utf-8", "replace")
    assert [line["offset"] for line in lines[1:]] == [line["next"] for line in lines[:-1]]
    assert lines[-1]["next"] == len(data)


def test_a_large_log_comes_whole(client, run):
    data = b"".join(b"%07d\n" % number for number in range(200_000))
    client.post(f"/runs/{run}/logs/{DRIVER}?offset=0", data)
    end(client, run)
    assert text_of(client.lines(f"/runs/{run}/stream")) == data.decode()


def test_many_followers_see_the_same(client, run):
    seen = [[] for _ in range(8)]
    ready = threading.Barrier(9)

    def follow(mine):
        stream = client.lines(f"/runs/{run}/stream")
        next(stream)
        ready.wait(20)
        mine.extend(stream)

    threads = [threading.Thread(target=follow, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    ready.wait(20)
    for number in range(10):
        client.post(f"/runs/{run}/logs/{DRIVER}?offset={number * 2}", b"%d\n" % number)
    end(client, run)
    for thread in threads:
        thread.join(20)
    assert {text_of(mine) for mine in seen} == {"".join(f"{number}\n" for number in range(10))}


def test_waiting_is_woken_by_a_change(client, run):
    version = client.get(f"/runs/{run}")["version"]
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(client.get(f"/runs/{run}/wait?version={version}&timeout=20"))
    )
    waiting.start()
    end(client, run)
    waiting.join(20)
    assert answers[0]["status"] == "Completed"


@pytest.mark.parametrize(
    ("paths", "chosen"),
    [
        ([], None),
        (["logs/x.txt", "azureml-logs/x.txt"], None),
        ([BUILD], BUILD),
        ([DRIVER, BUILD], DRIVER),
        (["azureml-logs/70_driver_log_0.txt", "azureml-logs/70_driver_log_1.txt"], "azureml-logs/70_driver_log_0.txt"),
        (
            ["azureml-logs/70_driver_log-ps-0.txt", "azureml-logs/70_driver_log-worker-0.txt"],
            "azureml-logs/70_driver_log-worker-0.txt",
        ),
        (["azureml-logs/70_driver_log_10.txt", "azureml-logs/70_driver_log_0.txt"], "azureml-logs/70_driver_log_0.txt"),
    ],
)
def test_the_first_rank_of_the_highest_number_is_streamed(paths, chosen):
    assert streamed_log(paths) == chosen
