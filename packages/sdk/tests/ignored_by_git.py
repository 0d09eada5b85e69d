"""What git ignores, compared with what we ignore. Not discovered with the other tests: it needs git."""
import os
import shutil
import subprocess
import tempfile
import unittest

from runyard_sdk.ignore import source_rules
from runyard_sdk.snapshot import walk
from tests.test_ignore import FILES

RULES = ["*.pyc", "build/", "/build", "docs/*.md", "docs/**", "*.log\n!keep.log", "**/baz", "foo/**/baz", "foo/*",
         "foo/*\n!foo/baz", "\\#hash", "\\!bang", "a\\ b", "weird[[]1].txt", "data[0-9].csv", "data[!0-9].csv", "*~",
         ".*", "b", "/b/c", "b/*/d.txt", "# comment\n\n  \nx.log", "*\n!*/\n!*.py", "**", "/**", "foo/", "*.tx?",
         "d?ta1.csv", "trailing.txt   ", "[", "docs\n!docs/x.md"]


class AgainstGitItself(unittest.TestCase):
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
