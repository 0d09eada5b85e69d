import threading
import unittest

from runyard_sdk.parallel import each_in_parallel


class InParallel(unittest.TestCase):
    def test_every_item_is_worked_on_once(self):
        found = dict(each_in_parallel(lambda item: item * 2, range(100), threads=4))
        self.assertEqual(found, {item: item * 2 for item in range(100)})

    def test_several_are_worked_on_at_once(self):
        met = threading.Barrier(4, timeout=30)
        self.assertEqual(len(list(each_in_parallel(lambda item: met.wait(), range(8), threads=4))), 8)

    def test_the_first_error_is_raised_and_ends_the_rest(self):
        begun = []

        def work(item):
            begun.append(item)
            if item == 3:
                raise ValueError("three")

        with self.assertRaisesRegex(ValueError, "three"):
            list(each_in_parallel(work, range(10000), threads=2))
        self.assertLess(len(begun), 10000)

    def test_a_caller_that_stops_asking_ends_the_threads(self):
        before = threading.active_count()
        results = each_in_parallel(lambda item: item, range(1000), threads=4)
        next(results)
        results.close()
        self.assertEqual(threading.active_count(), before)

    def test_nothing_to_do_is_nothing_done(self):
        self.assertEqual(list(each_in_parallel(lambda item: item, [])), [])


if __name__ == "__main__":
    unittest.main()
