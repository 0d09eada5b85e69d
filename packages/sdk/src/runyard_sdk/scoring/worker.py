"""`python -m runyard_sdk.scoring.worker FD`: serves one model or script to the gateway at the other end of FD."""
import gc
import json
import os
import select
import socket
import sys
import threading
import time

from runyard_sdk.scoring.answering import answer_all
from runyard_sdk.scoring.failure import failure_facts, log_failure
from runyard_sdk.scoring.frames import FrameReader, decode_requests, encode_answers, encode_json
from runyard_sdk.scoring.loading import load_scorer
from runyard_sdk.scoring.output import flush_output, open_log_streams
from runyard_sdk.scoring.readiness import ready_facts
from runyard_sdk.scoring.start import Start

SECONDS_AFTER_THE_GATEWAY = 10.0


def main(fd):
    """Serve until the gateway closes its end; 1 where the scorer did not load."""
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
        except BaseException as error:  # whatever a script raises while it loads, the gateway hears why
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
    """Answer what comes, each request as soon as it is done, until the stream ends."""
    if requests_at_once > 1:
        from runyard_sdk.scoring.threads import serve_in_threads
        return serve_in_threads(sock, portions(reader, scorer), scorer, requests_at_once)
    for requests in portions(reader, scorer):
        sock.sendall(encode_answers(answer_all(scorer, requests)))


def portions(reader, scorer):
    """The requests that are to be scored together: a whole frame where the scorer batches, else one by one."""
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
    start.take_place()
    began = time.perf_counter()
    scorer = load_scorer(start)
    seconds = time.perf_counter() - began
    if hasattr(gc, "freeze"):
        gc.freeze()  # what was loaded stays: looking through it again and again makes slow requests
    return scorer, ready_facts(scorer, start.notes, seconds)


def _open_socket(fd):
    os.set_inheritable(fd, False)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)
    sock.setblocking(True)
    if hasattr(os, "register_at_fork"):
        # A child of the script would keep the gateway from seeing that this process ended.
        os.register_at_fork(after_in_child=sock.close)
    return sock


def _watch(sock):
    watcher = threading.Thread(target=_end_after_the_gateway, args=(sock.fileno(),), name="runyard-gateway-watch")
    watcher.daemon = True
    watcher.start()


def _end_after_the_gateway(fd):
    """A script that hangs does not outlive its gateway by long."""
    gone = select.poll()
    gone.register(fd, 0)  # a hang-up is told of even so
    gone.poll()
    time.sleep(SECONDS_AFTER_THE_GATEWAY)
    os._exit(1)


def _show_stacks_of_crashes():
    import faulthandler
    faulthandler.enable(2)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
