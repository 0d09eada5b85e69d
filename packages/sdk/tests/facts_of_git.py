import os
import subprocess
import tempfile
import unittest

from runyard_sdk.submitter import git_properties


def git(folder, *arguments):
    command = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main") + arguments
    return subprocess.check_output(command, cwd=folder, stderr=subprocess.DEVNULL).decode("utf-8").strip()


class GitFacts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.join(folder.name, "repo")
        os.makedirs(os.path.join(self.root, "src"))

    def commit(self):
        git(self.root, "init", "-q")
        git(self.root, "checkout", "-q", "-b", "topic/x")
        self.write("1")
        git(self.root, "add", ".")
        git(self.root, "commit", "-q", "-m", "one")

    def write(self, text):
        with open(os.path.join(self.root, "src", "a.py"), "w") as sink:
            sink.write(text)

    def test_outside_a_repository_there_are_none(self):
        self.assertEqual(git_properties(self.root), {})

    def test_a_repository_without_a_commit_has_none(self):
        git(self.root, "init", "-q")
        self.assertEqual(git_properties(self.root), {})

    def test_branch_commit_and_cleanness_are_told_from_a_folder_below(self):
        self.commit()
        facts = git_properties(os.path.join(self.root, "src"))
        self.assertEqual(facts["azureml.git.branch"], "topic/x")
        self.assertEqual(facts["azureml.git.commit"], git(self.root, "rev-parse", "HEAD"))
        self.assertEqual(facts["mlflow.source.git.commit"], facts["azureml.git.commit"])
        self.assertEqual(facts["azureml.git.dirty"], "False")

    def test_a_changed_file_makes_it_dirty(self):
        self.commit()
        self.write("2")
        self.assertEqual(git_properties(self.root)["azureml.git.dirty"], "True")

    def test_packed_refs_worktrees_and_detached_heads_are_read(self):
        self.commit()
        commit = git(self.root, "rev-parse", "HEAD")
        git(self.root, "pack-refs", "--all")
        self.assertEqual(git_properties(self.root)["azureml.git.commit"], commit)
        tree = self.root + "-tree"
        git(self.root, "worktree", "add", "-q", "-b", "other", tree)
        self.assertEqual(git_properties(tree)["azureml.git.branch"], "other")
        git(self.root, "checkout", "-q", "--detach")
        facts = git_properties(self.root)
        self.assertEqual((facts["azureml.git.commit"], "azureml.git.branch" in facts), (commit, False))

    def test_a_token_in_the_remote_address_stays_secret(self):
        self.commit()
        git(self.root, "remote", "add", "origin", "https://me:secret@host.example/a/b.git")
        self.assertEqual(git_properties(self.root)["azureml.git.repository_uri"], "https://host.example/a/b.git")


if __name__ == "__main__":
    unittest.main()
