import os
import resource
import tempfile
import unittest

from runyard_sdk.errors import RunyardError, StorageFull
from runyard_sdk.downloads import fetch
from tests.stand_in_files import FileService

CONTENT = bytes(range(256)) * 4096
SIZE = len(CONTENT)


class Downloads(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.target = os.path.join(folder.name, "deep", "file.bin")
        self.service = FileService({"/f": CONTENT}).__enter__()
        self.addCleanup(self.service.__exit__)

    def fetch(self, **settings):
        fetch(self.service.transport(), "/f", self.target, **settings)

    def content(self):
        with open(self.target, "rb") as source:
            return source.read()

    def beside(self):
        folder = os.path.dirname(self.target)
        return [name for name in os.listdir(folder) if name != "file.bin"]

    def test_a_file_comes_whole_and_leaves_nothing_beside_it(self):
        self.fetch()
        self.assertEqual((self.content(), self.beside()), (CONTENT, []))

    def test_a_broken_connection_is_taken_up_where_it_broke(self):
        self.service.break_after = [SIZE // 2, 1000]
        told = []
        self.fetch(size=SIZE, version="v1", on_bytes=told.append)
        self.assertEqual(self.content(), CONTENT)
        self.assertEqual(self.service.ranges[0], None)
        self.assertEqual(len(self.service.ranges), 3)
        self.assertTrue(all(asked.startswith("bytes=") for asked in self.service.ranges[1:]))
        self.assertEqual(sum(told), SIZE)

    def test_without_a_version_it_begins_anew(self):
        self.service.break_after = [SIZE // 2]
        told = []
        self.fetch(on_bytes=told.append)
        self.assertEqual((self.content(), self.service.ranges, sum(told)), (CONTENT, [None, None], SIZE))

    def test_what_came_in_an_earlier_call_is_used(self):
        self.service.break_after = [SIZE // 2] + [0] * 20
        with self.assertRaisesRegex(RunyardError, "broke off"):
            self.fetch(size=SIZE, version="v1")
        self.assertFalse(os.path.exists(self.target))
        self.service.break_after, self.service.ranges = [], []
        self.fetch(size=SIZE, version="v1")
        self.assertEqual((self.content(), self.beside()), (CONTENT, []))
        self.assertNotEqual(self.service.ranges, [None])

    def test_what_came_of_another_version_is_not_used(self):
        self.service.break_after = [SIZE // 2] + [0] * 20
        with self.assertRaises(RunyardError):
            self.fetch(size=SIZE, version="v1")
        self.service.break_after, self.service.ranges = [], []
        self.service.files["/f"] = CONTENT[::-1]
        self.fetch(size=SIZE, version="v2")
        self.assertEqual((self.content(), self.service.ranges), (CONTENT[::-1], [None]))

    def test_a_service_that_sends_all_again_is_believed(self):
        self.service.honours_ranges = False
        self.service.break_after = [SIZE // 2]
        told = []
        self.fetch(size=SIZE, version="v1", on_bytes=told.append)
        self.assertEqual((self.content(), sum(told)), (CONTENT, SIZE))

    def test_a_file_of_another_size_than_promised_is_never_taken_for_whole(self):
        for wrong in (SIZE - 1, SIZE + 1):
            with self.assertRaisesRegex(RunyardError, "bytes where .* were promised"):
                self.fetch(size=wrong)
            self.assertFalse(os.path.exists(self.target))

    def test_two_at_once_do_not_mix(self):
        import threading
        threads = [threading.Thread(target=self.fetch, kwargs={"size": SIZE, "version": "v1"}) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((self.content(), self.beside()), (CONTENT, []))

    def test_a_full_disk_is_named_and_leaves_nothing(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE // 2, hard))
        try:
            with self.assertRaisesRegex(StorageFull, "file.bin' could not be written"):
                self.fetch(size=SIZE, version="v1")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        self.assertEqual(os.listdir(os.path.dirname(self.target)), [])


if __name__ == "__main__":
    unittest.main()
