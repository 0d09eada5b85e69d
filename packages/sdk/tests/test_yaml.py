import unittest

from azureml._yaml import YamlError, dumps, loads

CONDA_FILE = """
# made by hand
name: "my # env"
channels: [defaults, conda-forge]
dependencies:
- python=3.6.2   # exact
- conda-forge::numpy
-   scipy
- pip:
    - azureml-defaults
    - --extra-index-url https://example.org/simple
    - 'tensorflow>=1.13,<1.14'
    - git+https://example.org/x.git#egg=x
prefix: ~
"""


class ReadingYaml(unittest.TestCase):
    def test_a_conda_file_as_users_write_it(self):
        self.assertEqual(loads(CONDA_FILE), {
            "name": "my # env", "channels": ["defaults", "conda-forge"], "prefix": None,
            "dependencies": ["python=3.6.2", "conda-forge::numpy", "scipy", {"pip": [
                "azureml-defaults", "--extra-index-url https://example.org/simple", "tensorflow>=1.13,<1.14",
                "git+https://example.org/x.git#egg=x"]}]})

    def test_windows_line_ends_a_byte_order_mark_and_a_document_start(self):
        self.assertEqual(loads("\ufeff---\r\na: 1\r\nb:\r\n  - x\r\n"), {"a": 1, "b": ["x"]})

    def test_nothing_at_all_is_none(self):
        self.assertIsNone(loads("# only a comment\n\n"))

    def test_scalars_have_their_types(self):
        self.assertEqual(loads("[1, -2, 3.5, true, No, null, '1', 1.2.3]"),
                         [1, -2, 3.5, True, False, None, "1", "1.2.3"])

    def test_what_is_beyond_the_subset_names_its_line(self):
        for text in ("a: 1\nb: &x 2", "a: 1\nb: *x", "a: 1\nb: |", "a: 1\nb: !t 2", "a: 1\n\tb: 2", "a: 1\n---\nb: 2",
                     "a: 1\nb: [1", "a: 1\nb: [x, \"y", "a: 1\nb: 'x", "a: 1\na: 2", "a: 1\n  b: 2", "a: 1\nb"):
            with self.assertRaisesRegex(YamlError, "Line [23] "):
                loads(text)


class WritingYaml(unittest.TestCase):
    def test_what_is_written_is_read_back(self):
        values = [
            {"a": [], "b": {}, "c": None, "d": [1, 2.5, True], "e": [[1], [{"f": "g", "h": [{"i": 1}]}]]},
            {"text": ["", " x", "x ", "yes", "3.10", "-", "- a", "a: b", "#", "it's", '"', "\n\t\x00", "*", "\u00e4",
                      'x": y', "it's: ' #", "a\u2028b", "\U0001f600"]},
            {"odd key: x": 1, "": 2, "7": 3}, [["a"], []], "plain", 5,
        ]
        for value in values:
            self.assertEqual(loads(dumps(value)), value)

    def test_what_other_readers_take_for_something_else_than_text_is_quoted(self):
        for text in ("on", "Off", "NO", "2020-01-01", "1:30", "0x1f", "1_000", ".inf", "=", "<<"):
            self.assertEqual(dumps([text]), '- "%s"\n' % text)


if __name__ == "__main__":
    unittest.main()
