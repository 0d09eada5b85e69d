import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _AskingForLogin(SimpleHTTPRequestHandler):
    login = ""

    def do_GET(self) -> None:
        if (
            self.login
            and self.headers.get("Authorization") != "Basic " + base64.b64encode(self.login.encode()).decode()
        ):
            self.send_error(401)
        else:
            super().do_GET()

    do_HEAD = do_GET

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path, login: str = "") -> Iterator[str]:
    """HOST:PORT of a web server for the folder, which wants "USER:PASSWORD" where a login is given."""
    handler = type("_Handler", (_AskingForLogin,), {"login": login})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
