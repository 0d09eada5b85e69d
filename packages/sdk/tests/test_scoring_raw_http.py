"""@rawhttp scripts in an environment without Flask: the request is ours, and like Flask's."""
import unittest

from runyard_sdk.scoring.answers import Refused, Unanswerable
from runyard_sdk.scoring.raw_http.requests import MOST_PARTS, FlaskLikeRequest
from runyard_sdk.scoring.raw_http.response import AMLResponse, response_answer
from tests.scoring_worker import Worker, head

FORM = (b'--cut\r\nContent-Disposition: form-data; name="image"; filename="cat.png"\r\nContent-Type: image/png\r\n\r\n'
        b'\x89PNG\r\n\x1a\n\xff--cu\r\n'
        b'--cut\r\nContent-Disposition: form-data; name="k"\r\n\r\nv\xc4\x9b\r\n--cut--\r\n')


def a_request(body=b"", method="POST", path="/score", query="", **headers):
    return FlaskLikeRequest(head(method, path, query, **headers), body)


class RawScripts(unittest.TestCase):
    CODE = '''
from azureml.contrib.services.aml_request import AMLRequest, rawhttp
from azureml.contrib.services.aml_response import AMLResponse

def init(): pass

@rawhttp
def run(request):
    assert isinstance(request, AMLRequest)
    if request.method == "GET":
        return AMLResponse(request.full_path.encode("utf-8"), 200)
    if request.method == "OPTIONS":
        answer = AMLResponse("", 204)
        answer.headers["access-control-allow-origin"] = "*"
        return answer
    if request.args.get("file"):
        return len(request.files["image"].read())
    return AMLResponse(request.get_json(), 201, {"X-Seen": "yes"}, json_str=True)
'''

    def test_get_the_request_and_answer_as_they_like(self):
        with Worker(self.CODE) as worker:
            facts = worker.ready()
            self.assertEqual((facts["wants_heads"], facts["methods"]), (True, ["GET", "POST", "OPTIONS"]))
            seen = worker.ask(b"", head("GET", query="a=b"))
            self.assertEqual((seen.status, seen.body, seen.headers["Content-Type"]),
                             (200, b"/score?a=b", "text/html; charset=utf-8"))
            made = worker.ask(b'{"a": 1}', head(Content_Type="application/json"))
            self.assertEqual((made.status, made.json, made.headers["X-Seen"]), (201, {"a": 1}, "yes"))
            self.assertEqual(worker.ask(b"", head("OPTIONS")).headers["access-control-allow-origin"], "*")
            sent = worker.ask(FORM, head(query="file=1", Content_Type="multipart/form-data; boundary=cut"))
            self.assertEqual((sent.status, sent.json), (200, 13))

    def test_a_body_that_is_not_json_is_the_clients_fault(self):
        with Worker(self.CODE) as worker:
            worker.ready()
            answer = worker.ask(b"{", head(Content_Type="application/json"))
            self.assertEqual(answer.status, 400)
            self.assertIn("not JSON", answer.json["message"])

    def test_a_status_or_header_that_http_has_not_is_told(self):
        code = "from runyard_sdk.scoring.raw_http.response import AMLResponse\nimport json\ndef init(): pass\n" \
               "def run(data): return AMLResponse(*json.loads(data))"
        with Worker(code) as worker:
            worker.ready()
            for asked, said in ((b'["x", 99999]', "99999"), (b'["x", "ok"]', "'ok'"),
                                (b'["x", 200, {"A": "b\\r\\nSet-Cookie: c"}]', "header")):
                answer = worker.ask(asked)
                self.assertEqual(answer.status, 500)
                self.assertIn(said, answer.json["message"])


class TheRequest(unittest.TestCase):
    def test_has_the_parts_of_its_address(self):
        request = a_request(path="/a%20b", query="x=1&x=2&n=7", Host="h:80", Content_Type="text/plain")
        self.assertEqual((request.path, request.full_path, request.url), (
            "/a b", "/a b?x=1&x=2&n=7", "http://h:80/a b?x=1&x=2&n=7"))
        self.assertEqual((request.args["x"], request.args.getlist("x"), request.args.get("n", type=int)),
                         ("1", ["1", "2"], 7))
        self.assertEqual(request.args.get("x", 5, type=lambda text: int("no")), 5)
        self.assertEqual((request.headers["host"], request.mimetype), ("h:80", "text/plain"))
        self.assertRaises(KeyError, lambda: request.headers["absent"])

    def test_reads_its_body_as_data_text_and_json(self):
        request = a_request(b'{"a": 1}', Content_Type="application/json; charset=utf-8")
        self.assertEqual((request.data, request.get_data(as_text=True)), (b'{"a": 1}', '{"a": 1}'))
        self.assertEqual(request.json, {"a": 1})
        self.assertIsNone(a_request(b'{"a": 1}', Content_Type="text/plain").get_json())
        self.assertEqual(a_request(b"[1]").get_json(force=True), [1])
        self.assertIsNone(a_request(b"{").get_json(force=True, silent=True))
        self.assertRaises(Refused, a_request(b"\xff").get_json, force=True)

    def test_reads_forms(self):
        request = a_request(b"a=1&b=x+y", Content_Type="application/x-www-form-urlencoded")
        self.assertEqual((request.form.to_dict(), request.files.to_dict()), ({"a": "1", "b": "x y"}, {}))
        request = a_request(FORM, Content_Type='multipart/form-data; boundary="cut"')
        self.assertEqual(request.form["k"], u"v\u011b")
        sent = request.files["image"]
        self.assertEqual((sent.filename, sent.mimetype, sent.read()),
                         ("cat.png", "image/png", b"\x89PNG\r\n\x1a\n\xff--cu"))

    def test_refuses_forms_that_are_none(self):
        for body, kind, status in (
                (FORM, "multipart/form-data", 400), (b"--cut\r\nno end", "multipart/form-data; boundary=cut", 400),
                (b"--c\r\n\r\n\r\n" * (MOST_PARTS + 2), "multipart/form-data; boundary=c", 413)):
            with self.assertRaises(Refused) as caught:
                a_request(body, Content_Type=kind).form
            self.assertEqual(caught.exception.status, status)

    def test_has_cookies(self):
        self.assertEqual(a_request(Cookie="a=1; b=2").cookies, {"a": "1", "b": "2"})


class TheResponse(unittest.TestCase):
    def test_of_a_value_is_json(self):
        self.assertEqual(response_answer(AMLResponse({"a": 1}, 200)),
                         (200, [["Content-Type", "application/json"]], b'{"a": 1}'))

    def test_of_a_text_with_json_str_is_encoded(self):
        self.assertEqual(AMLResponse("a", 200, json_str=True).data, b'"a"')

    def test_headers_have_no_case_and_may_repeat(self):
        response = AMLResponse(b"", 200, {"content-type": "image/png"})
        response.headers.add("Set-Cookie", "a")
        response.headers.add("Set-Cookie", "b")
        self.assertEqual(response_answer(response)[1], [["content-type", "image/png"], ["Set-Cookie", "a"],
                                                        ["Set-Cookie", "b"]])

    def test_a_header_with_a_line_end_is_not_sent(self):
        with self.assertRaises((Unanswerable, ValueError)):  # newer releases of Python refuse it in AMLResponse already
            response_answer(AMLResponse(b"", 200, {"A": "b\nc"}))


if __name__ == "__main__":
    unittest.main()
