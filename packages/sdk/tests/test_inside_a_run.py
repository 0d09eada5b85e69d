import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(os.path.dirname(HERE), "src")


class InsideARun(unittest.TestCase):
    def test_the_journal_needs_nothing_but_the_standard_library(self):
        said = subprocess.check_output([sys.executable, "-I", "-S", os.path.join(HERE, "inrun.py"), SOURCE],
                                       stderr=subprocess.STDOUT)
        self.assertEqual(said.decode("utf-8").strip(), "journal works")


if __name__ == "__main__":
    unittest.main()
