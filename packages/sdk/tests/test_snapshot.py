import os
import tempfile
import unittest
from unittest import mock

from runyard_sdk import blobs, snapshot
from runyard_sdk.errors import InvalidArgument, TooLarge


class ASnapshot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.join(folder.name, "source")
        os.mkdir(self.root)
        before = os.environ.get("RUNYARD_HOME")
        os.environ["RUNYARD_HOME"] = os.path.join(folder.name, "home")
        self.addCleanup(lambda: os.environ.__setitem__("RUNYARD_HOME", before) if before
                        else os.environ.pop("RUNYARD_HOME"))

    def write(self, path, content=b"x"):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as sink:
            sink.write(content)
        return full

    def paths(self):
        return [entry[0] for entry in snapshot.take(self.root)]

    def test_lists_files_by_path_with_hash_size_and_mode(self):
        os.chmod(self.write("b/run.sh", b"hello"), 0o755)
        self.write("a.py", b"")
        self.assertEqual(snapshot.take(self.root), [
            ["a.py", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 0,
             os.stat(os.path.join(self.root, "a.py")).st_mode & 0o777],
            ["b/run.sh", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", 5, 0o755]])

    def test_amlignore_counts_alone_where_both_are_there(self):
        for path in ("a.txt", "b.txt"):
            self.write(path)
        self.write(".gitignore", b"a.txt\n")
        self.write(".amlignore", b"b.txt\n")
        self.assertEqual(self.paths(), [".amlignore", ".gitignore", "a.txt"])

    def test_nothing_is_left_out_without_an_ignore_file(self):
        self.write(".git/HEAD")
        self.write("outputs/model")
        self.assertEqual(self.paths(), [".git/HEAD", "outputs/model"])

    def test_a_link_that_leads_back_up_ends(self):
        self.write("a/b.txt")
        os.symlink(self.root, os.path.join(self.root, "a", "loop"))
        self.assertEqual(self.paths(), ["a/b.txt"])

    def test_a_pipe_and_a_dangling_link_are_no_files(self):
        os.mkfifo(os.path.join(self.root, "pipe"))
        os.symlink("nowhere", os.path.join(self.root, "dangling"))
        self.write("a")
        self.assertEqual(self.paths(), ["a"])

    def test_a_name_that_is_no_text_is_refused_by_name(self):
        with open(os.path.join(os.fsencode(self.root), b"bad\xff"), "w"):
            pass
        with self.assertRaisesRegex(InvalidArgument, "not UTF-8"):
            self.paths()

    def test_a_folder_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(InvalidArgument, "nowhere"):
            snapshot.take(os.path.join(self.root, "nowhere"))

    def test_too_large_names_the_largest_files(self):
        self.write("small", b"x")
        self.write("big.bin", b"x" * 5000)
        with self.assertRaisesRegex(TooLarge, r"big\.bin \(5 KB\), small"):
            snapshot.take(self.root, refuse_above=4000)

    def test_above_the_warning_size_it_warns_and_goes_on(self):
        size = 3 * 1024 * 1024 + 1
        os.truncate(self.write("sparse.bin"), size)
        said = []
        with mock.patch.object(snapshot, "WARN_BYTES", size - 1):  # hashing 300 MB takes seconds
            entries = snapshot.take(self.root, warn=said.append)
        self.assertEqual(entries[0][2], size)
        self.assertIn("sparse.bin (3 MB)", said[0])
        self.assertEqual(snapshot.WARN_BYTES, 300 * 1024 * 1024)

    def test_an_unchanged_file_is_not_read_again_and_a_changed_one_is(self):
        full = self.write("big.bin", b"1" * 100000)
        self.let_it_cool()
        read = self.hashing_is_counted()
        first = snapshot.take(self.root)
        second = snapshot.take(self.root)
        self.assertEqual((first, len(read)), (second, 1))
        self.write("big.bin", b"2" * 100000)
        third = snapshot.take(self.root)
        self.assertEqual(len(read), 2)
        self.assertNotEqual(third, second)
        self.assertEqual(third[0][1], blobs.hashed(full)[0])

    def test_a_file_that_was_just_written_is_read_again(self):
        self.write("big.bin", b"1" * 100000)
        read = self.hashing_is_counted()
        snapshot.take(self.root)
        snapshot.take(self.root)
        self.assertEqual(len(read), 2)

    def let_it_cool(self):
        """Have the cache believe that two seconds have passed since the file changed."""
        before = snapshot._STILL_WARM_NANOSECONDS
        snapshot._STILL_WARM_NANOSECONDS = -1
        self.addCleanup(setattr, snapshot, "_STILL_WARM_NANOSECONDS", before)

    def hashing_is_counted(self):
        read, real = [], blobs.hashed
        snapshot.hashed = lambda path: (read.append(path), real(path))[1]
        self.addCleanup(setattr, snapshot, "hashed", real)
        return read


if __name__ == "__main__":
    unittest.main()
