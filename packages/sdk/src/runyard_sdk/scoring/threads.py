import queue
import threading

from runyard_sdk.scoring.answering import answer_all
from runyard_sdk.scoring.frames import encode_answers


def serve_in_threads(sock, portions, scorer, count):
    """As `serve`, so many at once. Returns when all that came is answered."""
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
    for requests in portions:
        waiting.put(requests)
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()
