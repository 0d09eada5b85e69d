"""Scoring scripts in a real worker: what run() gets, and what becomes of what it returns or raises."""
import json
import unittest

from tests.scoring_worker import Worker, head

SCRIPT = '''
import json, sys

def init():
    global prefix
    prefix = "got "

def run(data):
    return VALUE
'''


def script(value, before=""):
    return before + SCRIPT.replace("VALUE", value)


class WhatRunGets(unittest.TestCase):
    def test_the_body_as_text(self):
        with Worker(script("prefix + data")) as worker:
            worker.ready()
            self.assertEqual(worker.ask(u'{"data": "\u011b"}'.encode("utf-8")).json, u'got {"data": "\u011b"}')

    def test_an_empty_body_as_empty_text(self):
        with Worker(script("data")) as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"").json, "")

    def test_the_query_of_a_get_as_the_text_of_an_object(self):
        with Worker(script("json.loads(data)")) as worker:
            self.assertEqual(worker.ready()["methods"], ["GET", "POST"])
            answer = worker.ask(head=head("GET", query="a=1&b=x%20y&a=2&c="))
            self.assertEqual(answer.json, {"a": "1", "b": "x y", "c": ""})

    def test_a_body_that_is_no_utf_8_is_refused(self):
        with Worker(script("data")) as worker:
            worker.ready()
            answer = worker.ask(b"\xff\xfe")
            self.assertEqual(answer.status, 400)
            self.assertIn("not UTF-8", answer.json["message"])

    def test_a_function_with_any_arguments_serves_too(self):
        with Worker("def init(): pass\ndef run(*args, **kwargs): return [len(args), args[0], kwargs]") as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"x").json, [1, "x", {}])


class WhatBecomesOfAResult(unittest.TestCase):
    def answer_to(self, value, before=""):
        with Worker(script(value, before)) as worker:
            worker.ready()
            return worker.ask(b"x")

    def test_values_are_json(self):
        answer = self.answer_to('{"a": [1, 2.5, True, None, "t"]}')
        self.assertEqual((answer.status, answer.headers), (200, {}))
        self.assertEqual(answer.json, {"a": [1, 2.5, True, None, "t"]})

    def test_a_text_is_encoded_once_more(self):
        self.assertEqual(self.answer_to("json.dumps([1])").body, b'"[1]"')

    def test_none_is_an_empty_object(self):
        self.assertEqual(self.answer_to("None").body, b"{}")

    def test_nan_goes_out_as_python_reads_it(self):
        self.assertEqual(self.answer_to('[float("nan"), float("inf")]').body, b"[NaN, Infinity]")

    def test_what_looks_like_an_array_becomes_a_list(self):
        before = "class Array:\n    dtype = 'float'\n    def tolist(self): return [[1.0], [2.0]]\n"
        self.assertEqual(self.answer_to('{"result": Array()}', before).json, {"result": [[1.0], [2.0]]})

    def test_bytes_are_refused_with_what_to_do(self):
        answer = self.answer_to('b"raw"')
        self.assertEqual(answer.status, 500)
        self.assertIn("AMLResponse", answer.json["message"])

    def test_a_circle_is_refused(self):
        answer = self.answer_to("circle", "circle = []\ncircle.append(circle)\n")
        self.assertEqual(answer.status, 500)
        self.assertIn("Circular", answer.json["message"])

    def test_a_class_of_the_users_is_refused_by_its_name(self):
        answer = self.answer_to("Forest()", "class Forest: pass\n")
        self.assertEqual(answer.status, 500)
        self.assertIn("Forest", answer.json["message"])


class WhenRunFails(unittest.TestCase):
    def test_the_client_gets_the_message_and_the_log_the_traceback(self):
        with Worker(script("json.loads(data)['absent']")) as worker:
            worker.ready()
            answer = worker.ask(b"{}")
            self.assertEqual((answer.status, answer.json), (500, {"message": "KeyError: 'absent'"}))
            self.assertEqual(answer.headers["x-ms-run-function-failed"], "True")
            log = worker.log()
        self.assertIn("score.py\", line 9, in run", log)
        self.assertNotIn("answering.py", log)

    def test_exits_and_interrupts_end_the_request_and_not_the_worker(self):
        code = "def init(): pass\ndef run(data):\n    raise {'e': SystemExit(3), 'k': KeyboardInterrupt(), " \
               "'m': MemoryError()}[data]"
        with Worker(code) as worker:
            worker.ready()
            said = [worker.ask(letter).json["message"] for letter in (b"e", b"k", b"m")]
            self.assertEqual(said, ["SystemExit: 3", "KeyboardInterrupt", "MemoryError"])

    def test_endless_recursion_is_an_answer(self):
        with Worker("def init(): pass\ndef run(data): return run(data)") as worker:
            worker.ready()
            self.assertIn("RecursionError", worker.ask(b"").json["message"])
            self.assertIn("RecursionError", worker.ask(b"").json["message"])

    def test_of_an_azureml_exception_the_sentence_is_told(self):
        before = "from azureml.exceptions import UserErrorException\ndef refuse(): raise UserErrorException('no')\n"
        with Worker(script("refuse()", before)) as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"x").json["message"], "UserErrorException: no")

    def test_an_exception_that_cannot_be_printed_is_told_by_its_name(self):
        code = "class Odd(Exception):\n    def __str__(self): raise ValueError()\n" \
               "def init(): pass\ndef run(data): raise Odd()"
        with Worker(code) as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"").json, {"message": "Odd"})


class Printing(unittest.TestCase):
    def test_is_in_the_log_when_the_answer_is_there(self):
        code = u"import sys\ndef init(): print('in init')\n" \
               u"def run(data):\n    print('part \u011b', end='')\n    sys.stderr.write('err ')\n    return 1"
        with Worker(code) as worker:
            worker.ready()
            self.assertEqual(worker.log(), "in init\n")
            worker.ask(b"")
            self.assertEqual(worker.log(), u"in init\npart \u011berr ")

    def test_a_script_that_closes_its_output_answers_on(self):
        with Worker("import sys\ndef init(): sys.stdout.close()\ndef run(data): return 2") as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"").json, 2)

    def test_a_full_disk_loses_lines_and_no_answers(self):
        code = "import os\ndef init():\n    full = os.open('/dev/full', os.O_WRONLY)\n" \
               "    os.dup2(full, 1); os.dup2(full, 2)\ndef run(data):\n    print(data)\n    return 3"
        with Worker(code) as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"x").json, 3)


class Surroundings(unittest.TestCase):
    def test_files_beside_the_script_are_found_from_a_sub_folder(self):
        code = {
            "sub/score.py": "import os, sys, near, top.deep\nfrom pathlib import Path\n"
                            "def init(): pass\n"
                            "def run(data): return [near.NAME, top.deep.NAME, __name__, Path(__file__).name, "
                            "open('data.txt').read(), sys.argv[1:], sys.modules[__name__].run is run]",
            "sub/near.py": "NAME = 'near'", "top/__init__.py": "", "top/deep.py": "NAME = 'deep'", "data.txt": "d"}
        with Worker(code, entry_script="sub/score.py") as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"").json, ["near", "deep", "score", "score.py", "d", [], True])

    def test_the_source_directory_is_looked_up_from_below_it_too(self):
        code = {"source/deep/er/score.py": "import neighbour\ndef init(): pass\ndef run(data): return [neighbour.NAME, "
                                           "open('./source/extra.txt').read()]",
                "source/neighbour.py": "NAME = 'neighbour'", "source/extra.txt": "extra"}
        with Worker(code, entry_script="source/deep/er/score.py") as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"").json, ["neighbour", "extra"])

    def test_a_script_with_the_name_of_a_loaded_module_hides_nothing(self):
        with Worker("import json\ndef init(): pass\ndef run(data): return json.loads(data)",
                    entry_script="entry/json.py") as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"[4]").json, [4])

    def test_classes_of_the_script_can_be_pickled(self):
        code = "import pickle\nclass Point:\n    x = 5\ndef init(): pass\n" \
               "def run(data): return pickle.loads(pickle.dumps(Point())).x"
        with Worker(code) as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"").json, 5)

    def test_children_of_the_script_do_not_get_the_gateways_socket(self):
        code = "import subprocess, sys\ndef init(): pass\ndef run(data): return subprocess.check_output(\n" \
               "    [sys.executable, '-c', 'import os; print(len(os.listdir(\"/proc/self/fd\")))'], close_fds=False" \
               ").decode()"
        with Worker(code) as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"").json.strip(), "4")  # 0, 1, 2 and the listing's own


class Models(unittest.TestCase):
    CODE = ("import os\nfrom azureml.core.model import Model\ndef init(): pass\ndef run(data):\n"
            "    return [os.environ['AZUREML_MODEL_DIR'], os.environ['AML_APP_ROOT'], "
            "open(Model.get_model_path('one')).read()]")

    def test_of_one_the_folder_of_its_version_is_the_model_dir(self):
        with Worker(self.CODE, models={"one/3/model.pkl": "weights"}, served=[("one", 3)]) as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"").json, [worker.models_root + "/one/3", worker.app_root, "weights"])

    def test_of_several_the_model_dir_is_above_them_all(self):
        with Worker(self.CODE, models={"one/3/model.pkl": "weights", "two/1/m/a": "", "two/1/m/b": ""},
                    served=[("one", 3), ("two", 1)]) as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"").json[0], worker.models_root)

    def test_paths_are_known_without_a_service(self):
        code = "import json\nfrom azureml.core import Model\ndef init(): pass\n" \
               "def run(data): return Model.get_model_path(*json.loads(data))"
        models = {"m/2/old.pkl": "", "m/10/new.pkl": "", "folder/1/model/a": "", "folder/1/model/b": "",
                  "loose/1/a": "", "loose/1/b": "", "single/1/model/a": ""}
        served = [("m", 2), ("m", 10), ("folder", 1), ("loose", 1), ("single", 1)]
        with Worker(code, models=models, served=served) as worker:
            worker.ready()
            for asked, path in ((["m"], "m/10/new.pkl"), (["m", 2], "m/2/old.pkl"), (["folder"], "folder/1/model"),
                                (["loose"], "loose/1"), (["single"], "single/1/model")):
                answer = worker.ask(json.dumps(asked).encode("utf-8"))
                self.assertEqual(answer.json, worker.models_root + "/" + path)
            for asked in (["absent"], ["m", 3], ["../azureml-app"]):
                answer = worker.ask(json.dumps(asked).encode("utf-8"))
                self.assertIn("ModelNotFoundException", answer.json["message"])


if __name__ == "__main__":
    unittest.main()
