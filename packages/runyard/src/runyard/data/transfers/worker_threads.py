import threading
from collections.abc import Callable, Iterator

Task = Callable[[], None]


def run_all(tasks: Iterator[Task], threads: int) -> None:
    """Run tasks in threads; the iterator is advanced as threads come free.

    After the first error no task is started. It is raised when the running tasks have ended.
    """
    taking = threading.Lock()
    errors: list[BaseException] = []

    def work() -> None:
        while not errors:
            try:
                with taking:
                    task = next(tasks, None)
                if task is None:
                    return
                task()
            except BaseException as error:
                errors.append(error)

    workers = [threading.Thread(target=work, name="data-worker", daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except BaseException as error:  # Ctrl-C is raised in this thread only
        errors.append(error)
        raise
    if errors:
        raise errors[0]
