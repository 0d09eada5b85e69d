import errno
import io
import json
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runyard.client import ConnectionPool, ServiceAddress, ServiceClient, ServiceUnavailable, byte_range
from runyard.core.errors import InvalidArgument, NotFound, StorageFull
from tests.client.scripted_service import HangUp, Hold, Reply, ScriptedService, Step, refusal, scripted


@pytest.fixture
def client(service: ScriptedService) -> ServiceClient:
    return ServiceClient(service.home, "secret", silence_seconds=20)


def connections(service: ScriptedService) -> int:
    return len({seen.connection for seen in service.seen})


class TestSending:
    def test_each_verb_sends_what_it_says(self, service: ScriptedService, client: ServiceClient) -> None:
        service.answers(*[Reply(body=b'{"a": 1}')] * 3)
        assert client.get("/runs/r?x=1") == {"a": 1}
        assert client.post("/runs", {"b": "ü"}) == {"a": 1}
        assert client.read("/blobs/1") == b'{"a": 1}'
        client.post("/keep")
        client.post_bytes("/journals", b"line\n")
        client.upload_open("/blobs/2", io.BytesIO(b"12345"), 5)
        client.delete("/files/a")
        sent = [(seen.method, seen.path, seen.headers.get("content-type"), seen.body) for seen in service.seen]
        assert sent == [
            ("GET", "/api/v1/runs/r?x=1", None, b""),
            ("POST", "/api/v1/runs", "application/json", json.dumps({"b": "ü"}).encode()),
            ("GET", "/api/v1/blobs/1", None, b""),
            ("POST", "/api/v1/keep", "application/json", b""),
            ("POST", "/api/v1/journals", "application/octet-stream", b"line\n"),
            ("PUT", "/api/v1/blobs/2", "application/octet-stream", b"12345"),
            ("DELETE", "/api/v1/files/a", None, b""),
        ]
        assert {seen.headers["authorization"] for seen in service.seen} == {"Bearer secret"}
        assert {seen.headers["host"] for seen in service.seen} == {service.url.removeprefix("http://")}

    def test_a_large_body_arrives_whole(self, service: ScriptedService, client: ServiceClient) -> None:
        content = os.urandom(1 << 20) * 5
        client.post_bytes("/a", content)
        client.upload_open("/b", io.BytesIO(content), len(content))
        with client.open("/c", "PUT", iter([content[:100], content[100:]]), {"Content-Length": "5242880"}) as answer:
            answer.read()
        assert [seen.body == content for seen in service.seen] == [True] * 3

    @pytest.mark.parametrize("name", ["a b", "ü", "line\r\nX: 1", "\0", "日本"])
    def test_no_name_breaks_the_request_line(self, service: ScriptedService, client: ServiceClient, name: str) -> None:
        client.get(f"/runs/{name}")
        client.get("/after")
        assert [seen.path.isascii() for seen in service.seen] == [True, True]
        assert "x" not in service.seen[0].headers

    @pytest.mark.parametrize("token", ["line\n", "ü", "\0"])
    def test_a_token_with_a_line_end_is_refused(self, tmp_path: Path, token: str) -> None:
        with pytest.raises(InvalidArgument, match="token"):
            ServiceClient(tmp_path, token)

    def test_each_request_has_an_id_of_its_own(self, service: ScriptedService, client: ServiceClient) -> None:
        for _ in range(3):
            client.get("/a")
        ServiceClient(service.home, "t").get("/a")
        assert len({seen.headers["x-request-id"] for seen in service.seen}) == 4


class TestConnections:
    def test_one_connection_serves_request_after_request(self, service: ScriptedService, client: ServiceClient) -> None:
        service.answers(Reply(), refusal("not_found", 404))
        client.get("/a")
        with pytest.raises(NotFound):
            client.get("/b")
        with client.open("/c") as answer:
            assert answer.read() == b"{}"
        client.download("/d", service.home / "target")
        assert connections(service) == 1

    def test_clients_may_share_one_each_with_its_own_token(self, service: ScriptedService) -> None:
        pool = ConnectionPool()
        for token in ("first", "second"):
            ServiceClient(service.home, token, connections=pool).get("/a")
        assert connections(service) == 1
        assert [seen.headers["authorization"] for seen in service.seen] == ["Bearer first", "Bearer second"]

    def test_one_that_was_closed_while_idle_is_not_used(self, service: ScriptedService, client: ServiceClient) -> None:
        service.answers(Reply(closes=True), Reply(closes=True))
        for _ in range(3):
            client.upload_open("/a", io.BytesIO(b"12"), 2)
            assert len(service.seen) == 3 or service.closed.acquire(timeout=20)
        assert [seen.body for seen in service.seen] == [b"12"] * 3

    def test_one_that_is_closed_at_the_request_is_replaced_once(
        self, service: ScriptedService, client: ServiceClient
    ) -> None:
        service.answers(Reply(), HangUp(), Reply(body=b'{"second": 1}'))
        client.get("/a")
        assert client.post("/b", {}) == {"second": 1}
        assert [seen.path for seen in service.seen] == ["/api/v1/a", "/api/v1/b", "/api/v1/b"]
        assert service.seen[1].headers["x-request-id"] == service.seen[2].headers["x-request-id"]
        service.answers(HangUp(), HangUp())
        with pytest.raises(ServiceUnavailable):
            client.get("/c")
        assert len(service.seen) == 5

    def test_nothing_is_sent_again_on_a_new_connection(self, service: ScriptedService, client: ServiceClient) -> None:
        service.answers(HangUp())
        with pytest.raises(ServiceUnavailable):
            client.get("/a")
        assert len(service.seen) == 1

    @pytest.mark.parametrize("body", [b"bytes", [b"pieces"]])
    def test_open_sends_once(self, service: ScriptedService, client: ServiceClient, body: bytes | list[bytes]) -> None:
        service.answers(Reply(), HangUp())
        client.get("/a")
        length = {} if isinstance(body, bytes) else {"Content-Length": "6"}
        with pytest.raises(ServiceUnavailable), client.open("/b", "PUT", body, length):
            pass
        assert len(service.seen) == 2

    def test_silence_is_borne_once(self, service: ScriptedService) -> None:
        client, over = ServiceClient(service.home, "t", silence_seconds=0.3), threading.Event()
        service.answers(Reply(), Hold(over))
        client.get("/a")
        with pytest.raises(ServiceUnavailable, match="TimeoutError"):
            client.get("/b")
        over.set()
        assert [seen.path for seen in service.seen] == ["/api/v1/a", "/api/v1/b"]

    def test_a_forked_child_makes_its_own(self, service: ScriptedService, client: ServiceClient) -> None:
        client.get("/parent")
        child = os.fork()
        if not child:
            try:
                client.get("/child")
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        client.get("/parent")
        at = [seen.connection for seen in service.seen]
        assert at[0] == at[2] != at[1]

    def test_threads_share_a_client(self, service: ScriptedService, client: ServiceClient) -> None:
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(lambda number: client.get(f"/{number}"), range(200))) == [{}] * 200
        assert len(service.seen) == 200
        assert connections(service) <= 8

    def test_a_service_that_came_back_elsewhere_is_found(
        self, service: ScriptedService, client: ServiceClient, tmp_path: Path
    ) -> None:
        client.get("/a")
        with scripted(tmp_path / "other") as other:
            facts = (tmp_path / "other" / "service.json").read_text()
            (service.home / "service.json").write_text(facts)
            service.answers(HangUp())
            client.get("/b")
            assert [seen.path for seen in other.seen] == ["/api/v1/b"]

    @pytest.mark.parametrize(
        "written", [None, "", "{", "[]", '{"url": 1}', '{"url": "ftp://x"}', '{"url": "http://x:0"}']
    )
    def test_a_home_without_a_service_is_waited_for(self, tmp_path: Path, written: str | None) -> None:
        if written is not None:
            (tmp_path / "service.json").write_text(written)
        client = ServiceClient(tmp_path, "t")
        with pytest.raises(ServiceUnavailable):
            client.get("/a")
        with pytest.raises(ServiceUnavailable):
            client.download("/a", tmp_path / "target")

    def test_a_given_address_that_is_none_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="no address"):
            ServiceClient(ServiceAddress("train.example"), "t").get("/a")


class TestAnswers:
    def test_one_that_ends_early_is_a_failure(self, service: ScriptedService, client: ServiceClient) -> None:
        short = Reply(body=b"12345", promises=9, closes=True)
        service.answers(short, short, short)
        with pytest.raises(ServiceUnavailable, match="IncompleteRead"):
            client.read("/a")
        with client.open("/b") as answer:
            assert answer.read(5) == b"12345"
            with pytest.raises(ServiceUnavailable, match="4 bytes early"):
                answer.read(2)
        with pytest.raises(ServiceUnavailable, match="4 bytes early"):
            client.download("/c", service.home / "target")

    def test_one_that_is_no_json_is_a_failure(self, service: ScriptedService, client: ServiceClient) -> None:
        service.answers(Reply(body=b"<html>Log in</html>"))
        with pytest.raises(ServiceUnavailable, match=r"not JSON.*Log in"):
            client.get("/a")

    def test_one_that_is_not_read_to_its_end_ends_its_connection(
        self, service: ScriptedService, client: ServiceClient
    ) -> None:
        service.answers(Reply(body=b"1" * 100))
        with client.open("/a") as answer:
            assert answer.read(10) == b"1" * 10
        client.get("/b")
        assert connections(service) == 2

    def test_what_the_reader_raises_is_no_failure_of_the_service(
        self, service: ScriptedService, client: ServiceClient
    ) -> None:
        with pytest.raises(OSError, match="No space") as raised, client.open("/a"):
            raise OSError(errno.ENOSPC, "No space left on device")
        assert raised.value.errno == errno.ENOSPC
        with pytest.raises(OSError, match="No space"):
            client.download("/a", Path("/dev/full"))

    def test_a_body_that_is_refused_early_is_told_in_its_words(
        self, service: ScriptedService, client: ServiceClient
    ) -> None:
        full = Step(refusal("storage_full", 507, "The disk is full."), reads_body=False)
        content = bytes(64 << 20)
        service.steps = deque([full, full])
        with pytest.raises(StorageFull, match="disk is full"):
            client.upload_open("/a", io.BytesIO(content), len(content))
        with pytest.raises(StorageFull, match="disk is full"):
            client.post_bytes("/a", content)

    def test_a_range_that_is_not_there_is_left_to_the_caller(
        self, service: ScriptedService, client: ServiceClient
    ) -> None:
        service.answers(Reply(416))
        with client.open("/a", headers=byte_range(5, 10)) as answer:
            assert answer.status == 416
        assert service.seen[0].headers["range"] == "bytes=5-14"
        assert byte_range(7) == {"Range": "bytes=7-"}

    def test_a_failing_service_is_waited_for_in_a_download_too(
        self, service: ScriptedService, client: ServiceClient
    ) -> None:
        service.answers(refusal("standing_by", 503))
        with pytest.raises(ServiceUnavailable):
            client.download("/a", service.home / "target")
        assert not (service.home / "target").exists()
