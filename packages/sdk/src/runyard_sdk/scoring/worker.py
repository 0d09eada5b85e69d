"""`python -m runyard_sdk.scoring.worker FD`: serves one model or script to the gateway at the other end of FD."""

import gc
import json
import os
import select
import socket
import sys
import threading
import time

from runyard_sdk.scoring.answers import answer_all
from runyard_sdk.scoring.failure import failure_facts, log_failure
from runyard_sdk.scoring.frames import FrameReader, decode_requests, encode_answers, encode_json
from runyard_sdk.scoring.output import flush_output, open_log_streams
from runyard_sdk.scoring.start import Start, load_scorer

LARGEST_PART = 64000
_PARTS = {
    "input": "The schema of the input",
    "output": "The schema of the output",
    "sample_input": "The sample input",
    "sample_output": "The sample output",
}
SECONDS_AFTER_THE_GATEWAY = 10.0


def main(fd):
    """Serve until the gateway closes its end; return 1 if the scorer did not load."""
    open_log_streams()
    _show_stacks_of_crashes()
    with _open_socket(fd) as sock:
        reader = FrameReader(sock)
        first = reader.read()
        if first is None:
            return 0
        start = Start.of_facts(json.loads(str(first[1], "utf-8")))
        _watch(sock)
        try:
            scorer, ready = _loaded(start)
        except BaseException as error:  # whatever a script raises while loading, report it to the gateway
            facts = failure_facts(error, start)
            log_failure(facts)
            flush_output()
            sock.sendall(encode_json(b"F", facts))
            return 1
        flush_output()
        try:
            sock.sendall(encode_json(b"H", ready))
            serve(sock, reader, scorer, start.requests_at_once)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the gateway is gone: nobody waits for an answer
    return 0


def serve(sock, reader, scorer, requests_at_once):
    """Answer requests, each as soon as it is done, until the stream ends."""
    if requests_at_once > 1:
        return serve_in_threads(sock, request_groups(reader, scorer), scorer, requests_at_once)
    for requests in request_groups(reader, scorer):
        sock.sendall(encode_answers(answer_all(scorer, requests)))


def request_groups(reader, scorer):
    """Requests to score together: a whole frame if the scorer batches, else one by one."""
    batches = getattr(scorer, "batches", False)
    frame = reader.read()
    while frame is not None:
        if frame[0] == b"R":
            requests = decode_requests(frame[1])
            if batches:
                yield requests
            else:
                for request in requests:
                    yield [request]
        frame = reader.read()


def _loaded(start):
    start.prepare_process()
    began = time.perf_counter()
    scorer = load_scorer(start)
    seconds = time.perf_counter() - began
    if hasattr(gc, "freeze"):
        gc.freeze()  # loaded objects stay: collecting them again and again makes slow requests
    return scorer, ready_facts(scorer, start.notes, seconds)


def _open_socket(fd):
    os.set_inheritable(fd, False)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)
    sock.setblocking(True)
    if hasattr(os, "register_at_fork"):
        # A child of the script would hide the end of this process from the gateway.
        os.register_at_fork(after_in_child=sock.close)
    return sock


def _watch(sock):
    watcher = threading.Thread(target=_end_after_the_gateway, args=(sock.fileno(),), name="runyard-gateway-watch")
    watcher.daemon = True
    watcher.start()


def _end_after_the_gateway(fd):
    """Exit soon after the gateway has gone, even if the script hangs."""
    gone = select.poll()
    gone.register(fd, 0)  # POLLHUP is reported even so
    gone.poll()
    time.sleep(SECONDS_AFTER_THE_GATEWAY)
    os._exit(1)


def _show_stacks_of_crashes():
    import faulthandler
    faulthandler.enable(2)


def serve_in_threads(sock, request_groups, scorer, count):
    """Like `serve`, with `count` threads. Returns when all requests are answered."""
    import queue
    waiting, sending = queue.Queue(), threading.Lock()

    def work():
        for requests in iter(waiting.get, None):
            frame = encode_answers(answer_all(scorer, requests))
            with sending:
                try:
                    sock.sendall(frame)
                except OSError:
                    return  # the gateway is gone: nobody waits for an answer

    threads = [threading.Thread(target=work, name="scoring-%d" % number) for number in range(count)]
    for thread in threads:
        thread.start()
    for requests in request_groups:
        waiting.put(requests)
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()


def ready_facts(scorer, notes, seconds):
    """Payload of an `H` frame. `seconds`: duration of loading."""
    import_seconds = getattr(scorer, "import_seconds", 0.0)
    schema, left_out = small_parts(getattr(scorer, "schema", None) or {})
    notes = list(notes) + left_out
    return {
        "pid": os.getpid(),
        "wants_heads": bool(getattr(scorer, "wants_heads", False)),
        "batches": bool(getattr(scorer, "batches", False)),
        "methods": list(getattr(scorer, "methods", ("POST",))),
        "schema": schema,
        "init_seconds": round(seconds - import_seconds, 6),
        "import_seconds": round(import_seconds, 6),
        "notes": notes + [note for note in getattr(scorer, "notes", ()) if note not in notes],
    }


def small_parts(schema):
    """(schema parts small enough for swagger.json, a sentence for each of the others)."""
    small, sentences = {}, []
    for name in _PARTS:
        if schema.get(name) is None:
            continue
        size = len(json.dumps(schema[name]))
        if size <= LARGEST_PART:
            small[name] = schema[name]
        else:
            sentences.append("%s takes %d bytes as JSON and is left out of swagger.json; at most %d are shown."
                             % (_PARTS[name], size, LARGEST_PART))
    return small, sentences


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
