"""TensorBoard's file format for scalars: protobuf messages in records with masked CRC-32C sums."""

import os
import struct
import time

_POLYNOMIAL = 0x82F63B78


class EventFile:
    """One new event file in a folder."""

    def __init__(self, folder, clock=time.time):
        self._clock = clock
        name = "events.out.tfevents.{:010d}.runyard.{}".format(int(clock()), os.urandom(4).hex())
        self.path = os.path.join(folder, name)
        self._sink = open(self.path, "wb")
        self._write(_double(1, clock()) + _text(3, b"brain.Event:2"))

    def scalar(self, tag, value, step):
        summary = _text(1, _text(1, tag.encode("utf-8")) + _float(2, value))
        self._write(_double(1, self._clock()) + _whole(2, step) + _text(5, summary))

    def flush(self):
        """Let readers of the file see all that was written to it."""
        self._sink.flush()

    def close(self):
        self._sink.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _write(self, event):
        length = struct.pack("<Q", len(event))
        self._sink.write(length + _masked_sum(length) + event + _masked_sum(event))


def crc32c(data):
    """The Castagnoli sum that TensorBoard checks."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def _masked_sum(data):
    value = crc32c(data)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(value):
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _whole(field, value):
    return _varint(field << 3) + _varint(value)


def _double(field, value):
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _text(field, content):
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _float(field, value):
    try:
        packed = struct.pack("<f", value)
    except OverflowError:  # larger than 32 bits can say
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return _varint(field << 3 | 5) + packed
