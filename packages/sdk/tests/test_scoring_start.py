"""Workers that cannot start say what is wrong, what to do and where."""
import unittest

from tests.scoring_worker import Worker

RUN = "def run(data): return data\n"


class AFailedStart(unittest.TestCase):
    def failure_of(self, code, entry_script="score.py", exit_code=1, **more):
        with Worker(code, entry_script=entry_script, **more) as worker:
            facts = worker.failed()
            self.assertEqual(worker.process.wait(20), exit_code)
            self.log = worker.log()
        return facts

    def test_of_an_exception_in_init_has_its_traceback_and_no_frame_of_ours(self):
        facts = self.failure_of("def init():\n    deeper()\ndef deeper():\n    raise ValueError('bad weights')\n" + RUN)
        self.assertEqual(facts["problem"], "init() of score.py failed: ValueError: bad weights")
        self.assertEqual(facts["exception"], "ValueError")
        self.assertIn('score.py", line 4, in deeper', facts["traceback"])
        self.assertNotIn("runyard_sdk", facts["traceback"])
        self.assertIn("bad weights", self.log)

    def test_of_a_long_exception_has_its_beginning_and_its_end(self):
        facts = self.failure_of("def init():\n    raise ValueError('begin ' + 'x' * 3000000 + ' end')\n" + RUN)
        self.assertIn("ValueError: begin xxx", facts["problem"])
        self.assertIn("raise ValueError", facts["traceback"])
        self.assertIn("characters are left out", facts["traceback"])
        self.assertTrue(facts["traceback"].endswith("xxx end\n"))
        self.assertLess(sum(map(len, facts.values())), 50000)

    def test_of_sys_exit_is_told_too(self):
        facts = self.failure_of("import sys\ndef init():\n    sys.exit('no licence')\n" + RUN)
        self.assertEqual(facts["problem"], "init() of score.py failed: SystemExit: no licence")
        self.assertIn("SystemExit", self.failure_of("raise SystemExit(0)")["problem"])

    def test_of_a_missing_package_names_what_to_add(self):
        facts = self.failure_of("import sklearn_that_nobody_has\n")
        self.assertIn("No module named 'sklearn_that_nobody_has'", facts["problem"])
        self.assertIn("add_pip_package('sklearn-that-nobody-has')", facts["hint"])
        self.assertIn("score.py\", line 1", facts["traceback"])

    def test_of_a_package_with_another_name_than_its_module_names_the_package(self):
        code = "def init():\n    raise ModuleNotFoundError(\"No module named 'cv2'\", name='cv2')\n" + RUN
        self.assertIn("add_pip_package('opencv-python-headless')", self.failure_of(code)["hint"])

    def test_of_a_module_that_went_from_a_package_tells_to_pin_it(self):
        code = ("def init():\n    raise ModuleNotFoundError(\"No module named 'sklearn.externals.joblib'\", "
                "name='sklearn.externals.joblib')\n" + RUN)
        self.assertIn("scikit-learn==", self.failure_of(code)["hint"])

    def test_of_a_module_in_a_sub_folder_says_where_it_is(self):
        facts = self.failure_of({"score.py": "import tools\n", "lib/tools.py": ""})
        self.assertIn("lib/tools.py is there", facts["hint"])

    def test_of_a_syntax_error_names_the_line(self):
        facts = self.failure_of("def init():\n    pass\ndef run(data)\n    return 1\n")
        self.assertIn("score.py is not valid Python in line 3", facts["problem"])
        self.assertEqual(facts["exception"], "SyntaxError")

    def test_of_a_syntax_error_in_another_file_names_that(self):
        facts = self.failure_of({"score.py": "import broken\n", "broken.py": "x = = 1\n"})
        self.assertIn("broken.py is not valid Python in line 1", facts["problem"])

    def test_of_bytes_that_are_no_text_is_told(self):
        self.assertIn("score.py", self.failure_of(b"x = '\xff\xfe'\n")["problem"])
        self.assertIn("score.py", self.failure_of(b"x = 1\0\n")["problem"])

    def test_of_a_script_without_its_functions_names_the_missing_one(self):
        self.assertIn("has no function init()", self.failure_of(RUN)["problem"])
        facts = self.failure_of("def init(): pass\nrun = 3")
        self.assertIn("has no function run()", facts["problem"])
        self.assertEqual(facts["traceback"], "")

    def test_of_an_init_with_arguments_says_that_there_are_none(self):
        self.assertIn("takes arguments", self.failure_of("def init(path): pass\n" + RUN)["problem"])

    def test_of_a_run_that_does_not_take_one_argument_comes_before_any_request(self):
        for signature in ("run()", "run(a, b)", "run(*, a)"):
            facts = self.failure_of("def init(): pass\ndef %s: pass" % signature)
            self.assertIn("called with one argument", facts["problem"])
            self.assertIn("@input_schema", facts["hint"])

    def test_of_a_script_that_is_not_there_names_it(self):
        self.assertIn("'absent.py'", self.failure_of({"score.py": ""}, entry_script="absent.py")["problem"])

    def test_of_a_missing_model_file_lists_what_is_there(self):
        code = "import os\ndef init(): open(os.path.join(os.environ['AZUREML_MODEL_DIR'], 'model.pkl'))\n" + RUN
        facts = self.failure_of(code, models={"iris/2/outputs/model.joblib": ""}, served=[("iris", 2)])
        self.assertIn("FileNotFoundError", facts["problem"])
        self.assertIn("iris/2/outputs/model.joblib", facts["hint"])

    def test_of_a_pickle_of_another_script_says_what_to_do(self):
        pickled = b"c__main__\nForest\n."
        code = "import os, pickle\ndef init():\n" \
               "    pickle.load(open(os.path.join(os.environ['AZUREML_MODEL_DIR'], 'm.pkl'), 'rb'))\n" + RUN
        facts = self.failure_of(code, models={"m/1/m.pkl": pickled}, served=[("m", 1)])
        self.assertIn("module of its own", facts["hint"])

    def test_of_a_scorer_that_this_version_lacks_is_told(self):
        self.assertIn("no scorer 'abacus'", self.failure_of("", scorer="abacus")["problem"])


if __name__ == "__main__":
    unittest.main()
