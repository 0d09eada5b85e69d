import os
import shutil
import subprocess
import tempfile
import unittest

from runyard_sdk.ignore import DockerRules, Rules, source_rules
from runyard_sdk.snapshot import walk

FILES = ["a.py", "a.pyc", "b/a.pyc", "b/c/d.txt", "build/x", "src/build/x", "docs/x.md", "docs/deep/x.md", "keep.log",
         "x.log", "b/x.log", "foo/bar/baz", "foo/baz", "#hash", "!bang", "a b", "weird[1].txt", "weird1.txt", "out/",
         "notes.txt~", ".hidden/file", "foo/z/bar/baz", "data1.csv", "data2.csv", "dataX.csv"]
RULES = ["*.pyc", "build/", "/build", "docs/*.md", "docs/**", "*.log\n!keep.log", "**/baz", "foo/**/baz", "foo/*",
         "foo/*\n!foo/baz", "\\#hash", "\\!bang", "a\\ b", "weird[[]1].txt", "data[0-9].csv", "data[!0-9].csv", "*~",
         ".*", "b", "/b/c", "b/*/d.txt", "# comment\n\n  \nx.log", "*\n!*/\n!*.py", "**", "/**", "foo/", "*.tx?",
         "d?ta1.csv", "trailing.txt   ", "[", "docs\n!docs/x.md"]


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


class AgainstGitItself(unittest.TestCase):
    """git is the judge of its own rules. Where a machine has none, the hand-picked cases above still hold."""

    def test_the_same_files_are_left_in(self):
        for rules in RULES:
            with tempfile.TemporaryDirectory() as folder:
                for path in FILES:
                    full = os.path.join(folder, path)
                    os.makedirs(os.path.dirname(full), exist_ok=True)
                    if not path.endswith("/"):
                        with open(full, "w"):
                            pass
                with open(os.path.join(folder, ".gitignore"), "w") as sink:
                    sink.write(rules + "\n")
                kept = sorted(path for path, _, _ in walk(folder, source_rules(folder)))
                self.assertEqual(kept, left_in_by_git(folder), "rules: {!r}".format(rules))


def left_in_by_git(folder):
    subprocess.check_call(["git", "init", "-q", folder])
    said = subprocess.check_output(["git", "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"],
                                   cwd=folder)
    shutil.rmtree(os.path.join(folder, ".git"))
    return sorted(said.decode("utf-8").strip("\0").split("\0")) if said else []


if __name__ == "__main__":
    unittest.main()
