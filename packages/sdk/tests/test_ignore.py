import unittest

from runyard_sdk.ignore import DockerRules, Rules

FILES = ["a.py", "a.pyc", "b/a.pyc", "b/c/d.txt", "build/x", "src/build/x", "docs/x.md", "docs/deep/x.md", "keep.log",
         "x.log", "b/x.log", "foo/bar/baz", "foo/baz", "#hash", "!bang", "a b", "weird[1].txt", "weird1.txt", "out/",
         "notes.txt~", ".hidden/file", "foo/z/bar/baz", "data1.csv", "data2.csv", "dataX.csv"]


class Matching(unittest.TestCase):
    def test_a_folder_pattern_leaves_a_file_of_that_name_in(self):
        rules = Rules(["build/"])
        self.assertTrue(rules.leave_out("build", is_folder=True))
        self.assertFalse(rules.leave_out("build", is_folder=False))

    def test_the_last_matching_pattern_decides(self):
        rules = Rules(["*.log", "!keep.log", "keep.log"])
        self.assertTrue(rules.leave_out("keep.log", is_folder=False))


class OfABuildContext(unittest.TestCase):
    def left_out(self, *lines):
        rules = DockerRules(lines)
        return [path for path in FILES if not path.endswith("/") and rules.leave_out(path, is_folder=False)]

    def test_patterns_are_meant_from_the_root(self):
        self.assertEqual(self.left_out("*.pyc", "./foo/baz", "# comment", ""), ["a.pyc", "foo/baz"])
        self.assertEqual(self.left_out("**/*.pyc"), ["a.pyc", "b/a.pyc"])

    def test_a_folder_goes_with_all_that_is_in_it(self):
        self.assertEqual(self.left_out("docs/"), ["docs/x.md", "docs/deep/x.md"])
        self.assertTrue(DockerRules(["docs"]).leave_out("docs", is_folder=True))

    def test_an_exception_brings_back_what_lies_deeper(self):
        self.assertEqual(self.left_out("docs", "!docs/deep/x.md"), ["docs/x.md"])
        self.assertFalse(DockerRules(["docs", "!docs/deep/x.md"]).leave_out("docs", is_folder=True))


if __name__ == "__main__":
    unittest.main()
