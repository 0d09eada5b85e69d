THREADS = 8


def each_in_parallel(work, items, threads=THREADS):
    """Generate (item, work(item)) as they finish, in any order.

    The first error is raised once the threads have finished what they began; later items are not started, nor when the
    caller stops iterating.
    """
    items = list(items)
    if len(items) < 2:
        for item in items:
            yield item, work(item)
        return
    import queue
    import threading

    waiting, done = iter(items), queue.Queue()
    lock, stopped = threading.Lock(), threading.Event()

    def serve():
        while not stopped.is_set():
            with lock:
                item = next(waiting, _NOTHING)
            if item is _NOTHING:
                break
            try:
                done.put((item, work(item), None))
            except BaseException as error:
                stopped.set()
                done.put((item, None, error))
        done.put(None)

    workers = [threading.Thread(target=serve, daemon=True) for _ in range(min(threads, len(items)))]
    for worker in workers:
        worker.start()
    try:
        for item, result in _results(done, len(workers)):
            yield item, result
    finally:
        stopped.set()
        for worker in workers:
            worker.join()


_NOTHING = object()


def _results(done, running):
    failure = None
    while running:
        found = done.get()
        if found is None:
            running -= 1
        elif found[2] is not None:
            failure = failure or found[2]
        elif failure is None:
            yield found[0], found[1]
    if failure is not None:
        raise failure
