import threading
from collections.abc import Callable, Iterator

Task = Callable[[], None]


def run_all(tasks: Iterator[Task], threads: int) -> None:
    """Run the tasks, taken one by one as threads come free. After the first error none is begun any more; it is
    raised once those under way have ended."""
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
    except BaseException as error:  # the user's Ctrl-C reaches this thread alone
        errors.append(error)
        raise
    if errors:
        raise errors[0]
