import struct
import tempfile
import unittest

from azureml.tensorboard.export import _EventFile, _crc32c


def records_of(path):
    """The payloads of an event file, their sums checked as TensorBoard does."""
    with open(path, "rb") as source:
        content = source.read()
    found, position = [], 0
    while position < len(content):
        (length,) = struct.unpack_from("<Q", content, position)
        check(content[position:position + 8], content[position + 8:position + 12])
        payload = content[position + 12:position + 12 + length]
        check(payload, content[position + 12 + length:position + 16 + length])
        found.append(payload)
        position += 16 + length
    return found


def check(data, stored):
    masked = struct.unpack("<I", stored)[0]
    turned = (masked - 0xA282EAD8) & 0xFFFFFFFF
    assert _crc32c(data) == (turned >> 17 | turned << 15) & 0xFFFFFFFF


class AnEventFile(unittest.TestCase):
    def test_the_sum_is_castagnolis(self):
        self.assertEqual(_crc32c(b"123456789"), 0xE3069283)

    def test_begins_with_its_version_and_holds_each_scalar(self):
        with tempfile.TemporaryDirectory() as folder:
            with _EventFile(folder, clock=lambda: 1.5) as events:
                events.scalar("loss", 0.25, 300)
            first, second = records_of(events.path)
        wall_time = b"\x09" + struct.pack("<d", 1.5)
        self.assertEqual(first, wall_time + b"\x1a\x0dbrain.Event:2")
        value = b"\x0a\x04loss" + b"\x15" + struct.pack("<f", 0.25)
        summary = b"\x0a" + bytes([len(value)]) + value
        self.assertEqual(second, wall_time + b"\x10\xac\x02" + b"\x2a" + bytes([len(summary)]) + summary)

    def test_a_number_too_large_for_the_format_is_infinite(self):
        with tempfile.TemporaryDirectory() as folder:
            with _EventFile(folder) as events:
                events.scalar("loss", 1e300, 0)
            self.assertIn(struct.pack("<f", float("inf")), records_of(events.path)[1])


if __name__ == "__main__":
    unittest.main()
