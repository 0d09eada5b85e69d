import html
import html.parser
import re
import time
from urllib.parse import urlsplit

import pytest

from runyard.access.tokens import Tokens
from tests.attempts import script_of
from tests.wire_client import PREFIX

DATA = {"type": "file", "sources": [{"datastore": "workspaceblobstore", "path": "pets"}]}
EVIL = "<script>alert(1)</script>\"'&"


@pytest.fixture
def page(client):
    """The path of the page of a run that has something in every section, all of it hostile."""
    references = {"raw": {"dataStoreName": "workspaceblobstore", "pathOnDataStore": EVIL, "mode": "Mount"}}
    definition = {"outputData": {"cleaned": {"mechanism": "Link"}}, "dataReferences": references}
    run = client.interactive_run(
        f"page-{client.workspace}", display_name=EVIL, tags={EVIL: EVIL}, definition=definition
    )
    run_id = run["id"]
    client.post(f"/runs/{run_id}/journals/{run_id}~0-1-a", b"".join(_points()))
    client.post(f"/runs/{run_id}/logs/azureml-logs/70_driver_log.txt?offset=0", EVIL.encode() + b"\n\xff\n")
    sha256 = client.put_blob(b"<h1>not a page</h1>")
    client.post(f"/runs/{run_id}/files", {"entries": [[f"outputs/{EVIL.replace('/', '')}.html", sha256, 19, 0o644]]})
    client.put(f"{client.here}/datastores/workspaceblobstore/files/pets", b"cat")
    dataset = client.post(f"{client.here}/datasets", {"name": EVIL.replace("/", ""), "body": DATA})
    script_of(client, run_id).get(f"{client.here}/assets/datasets/by-id/{dataset['id']}")
    client.post(f"/runs/{run_id}/outputs", {"name": "cleaned", "dataset_id": dataset["id"]})
    error = {"error": {"code": "UserError", "message": EVIL}}
    client.patch(f"/runs/{run_id}", {"error": error, "warnings": [EVIL], "description": EVIL})
    address = urlsplit(client.get(f"/runs/{run_id}")["web_view"])
    return f"{address.path}?{address.query}"


def _points():
    for step in range(300):
        yield b'["m","acc",%r,null,1.0]\n' % (1 - 1 / (step + 1))
    yield b'["m","acc",NaN,null,1.0]\n["m","acc",1e308,null,1.0]\n["m","acc",-1e308,null,1.0]\n["m","one",1,null,1.0]\n'


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.seen, self.links, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.links += [value for name, value in attributes if name == "href"]
        if tag not in ("meta", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_it_shows_the_run_and_lets_nothing_of_it_become_markup(client, page):
    answer = client.ask("GET", page, authorization="")
    text = answer.body.decode()
    tags = Tags(text)
    assert answer.status == 200
    assert "script" not in tags.seen
    assert tags.open == []
    assert text.count("<section") >= 9
    assert "polyline" in tags.seen
    assert 'http-equiv="refresh"' in text
    drawn = re.findall(r'points="([^"]*)"', text)
    assert drawn
    assert all(re.fullmatch(r"[\d., ]+", points) for points in drawn)


def test_it_names_the_cause_of_an_environment_that_could_not_be_made(client, page):
    run_id = f"page-{client.workspace}"
    error = {"code": "UserError", "message": "no", "messageParameters": {"cause": "no_such_package"}}
    client.patch(f"/runs/{run_id}", {"error": {"error": error}})
    assert "Error: UserError: no_such_package" in client.ask("GET", page, authorization="").body.decode()


def test_it_shows_the_datasets_that_the_run_read_and_wrote(client, page):
    text = client.ask("GET", page, authorization="").body.decode()
    data = text.partition("<h2>Data</h2>")[2].partition("</section>")[0]
    name = html.escape(EVIL.replace("/", ""))
    assert re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>", data) == [
        ("input", "", f"{name}, version 1", "Reference"),
        ("output", "cleaned", f"{name}, version 1", ""),
        ("reference", "raw", f"workspaceblobstore: {html.escape(EVIL)}", "Mount"),
    ]


def test_metrics_that_are_no_numbers_show_their_newest_value(client):
    run_id = client.interactive_run(f"shown-{client.workspace}")["id"]
    lines = (
        b'["m","word","good",null,1.0]\n["m","gap",NaN,null,1.0]\n["r","conf",{"a":1,"b":0.25},1.0]\n'
        b'["r","conf",{"a":2,"b":0.5},1.0]\n["t","table",{"x":[1,7],"y":["p","q"]},1.0]\n'
    )
    client.post(f"/runs/{run_id}/journals/{run_id}~0-1-a", lines)
    shown = client.get(f"/runs/{run_id}?metrics=1")
    assert shown["metrics"] == {
        "word": "good",
        "gap": "nan",
        "conf": {"a": 2, "b": 0.5},
        "table": {"x": 7, "y": "q"},
    }
    address = urlsplit(shown["web_view"])
    text = client.ask("GET", f"{address.path}?{address.query}", authorization="").body.decode()
    for cell in ("good", "nan", "a=2, b=0.5", "x=7, y=q"):
        assert f"<td>{cell}</td>" in text


def test_its_policy_allows_no_script_and_nothing_from_elsewhere(client, page):
    headers = client.ask("GET", page, authorization="").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["referrer-policy"] == "no-referrer"


def test_its_links_download_files_which_no_browser_shows_as_a_page(client, page):
    links = Tags(client.ask("GET", page, authorization="").body.decode()).links
    file = next(link for link in links if "/files/outputs/" in link)
    answer = client.ask("GET", file, authorization="")
    assert answer.body == b"<h1>not a page</h1>"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-type"] == "application/octet-stream"


def test_its_key_opens_that_run_and_nothing_else(client, page):
    path, _, query = page.partition("?")
    other = client.interactive_run(f"page-other-{client.workspace}")["id"]
    assert client.ask("GET", path, authorization="").status == 401
    assert client.ask("GET", f"{path}?key=wrong", authorization="").status == 401
    assert client.ask("GET", f"/runs/{other}?{query}", authorization="").status == 401
    assert client.ask("GET", f"{PREFIX}{path}?{query}", authorization="").status == 401
    assert client.ask("GET", path).status == 401


def test_it_stops_refreshing_once_the_run_has_ended(client, page):
    client.patch(page.partition("?")[0], {"status": "Completed"})
    assert 'http-equiv="refresh"' not in client.ask("GET", page, authorization="").body.decode()


def test_a_script_is_shown_no_key(client, page):
    run_id = f"page-{client.workspace}"
    script = script_of(client, run_id)
    for path in (f"/runs/{run_id}", f"{client.here}/runs", f"/runs/{run_id}/wait?timeout=0"):
        answer = script.ask("GET", PREFIX + path)
        assert (answer.status, b"/runs/" in answer.body, b"key=" in answer.body) == (200, True, False)


def test_a_key_opens_the_page_for_a_week(client, page):
    tokens, run_id, today = Tokens(client.token), f"page-{client.workspace}", int(time.time() // 86400)
    path = page.partition("?")[0]

    def status(key: str) -> int:
        return client.ask("GET", f"{path}?key={key}", authorization="").status

    assert page.partition("key=")[2] in [tokens.page_key(run_id, today + day) for day in (6, 7, 8)]
    assert status(tokens.page_key(run_id, today + 1)) == 200
    assert status(tokens.page_key(run_id, today - 2)) == 401
    assert status(tokens.page_key(run_id, today - 2).replace(f"{today - 2:x}", f"{today + 1:x}")) == 401
    for odd in ("", "-", "zz-1", f"{'f' * 500}-x", "1", "-1-2"):
        assert status(odd) == 401
