import os
import struct
import time

from azureml.exceptions import UserErrorException

__all__ = ["export_to_tensorboard"]
_POLYNOMIAL = 0x82F63B78


def export_to_tensorboard(run_data, logsdir, logger=None, recursive=True):
    """Write the numeric metrics of a run, a list of runs or an experiment as TensorBoard event files.

    Each run gets a folder named by its id below `logsdir`; with `recursive` its children get folders below it.
    """
    for run in _runs(run_data):
        _export(run, logsdir, recursive)


def _runs(run_data):
    from azureml.core.experiment import Experiment
    from azureml.core.run import Run

    if isinstance(run_data, Experiment):
        return list(run_data.get_runs())
    runs = list(run_data) if isinstance(run_data, (list, tuple)) else [run_data]
    for run in runs:
        if not isinstance(run, Run):
            raise UserErrorException("run_data must be a Run, a list of runs or an Experiment, got {}.".format(
                type(run).__name__))
    return runs


def _export(run, folder, recursive):
    target = os.path.join(folder, run.id)
    os.makedirs(target, exist_ok=True)
    with _EventFile(target) as events:
        for name, value in sorted(run.get_metrics().items()):
            _write(events, name, value)
    if recursive:
        for child in run.get_children():
            _export(child, target, recursive)


def _write(events, name, value):
    if isinstance(value, dict):
        for column, values in sorted(value.items()):
            _write(events, "{}/{}".format(name, column), values)
        return
    for step, number in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(number, (int, float)):
            events.scalar(name, float(number), step)


class _EventFile:
    """A new event file in a folder: protobuf messages in records with masked CRC-32C checksums."""

    def __init__(self, folder, clock=time.time):
        self._clock = clock
        name = "events.out.tfevents.{:010d}.runyard.{}".format(int(clock()), os.urandom(4).hex())
        self.path = os.path.join(folder, name)
        self._sink = open(self.path, "wb")
        self._write(_double_field(1, clock()) + _text_field(3, b"brain.Event:2"))

    def scalar(self, tag, value, step):
        summary = _text_field(1, _text_field(1, tag.encode("utf-8")) + _float_field(2, value))
        self._write(_double_field(1, self._clock()) + _integer_field(2, step) + _text_field(5, summary))

    def flush(self):
        """Make everything written visible to readers."""
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


def _crc32c(data):
    """CRC-32C (Castagnoli), which TensorBoard checks."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC_TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_CRC_TABLE = _crc_table()


def _masked_sum(data):
    value = _crc32c(data)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(value):
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _integer_field(field, value):
    return _varint(field << 3) + _varint(value)


def _double_field(field, value):
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _text_field(field, content):
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _float_field(field, value):
    try:
        packed = struct.pack("<f", value)
    except OverflowError:  # does not fit into 32 bits
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return _varint(field << 3 | 5) + packed
