from runyard.core.records.metrics import MetricKind, MetricSeries
from runyard.runs.history.metrics import pack
from runyard_sdk import metrics


class Pages:
    """Answers as the service does, one metric a page."""

    def __init__(self, count):
        self.count, self.asked = count, []

    def read(self, path, after, **query):
        self.asked.append((path, after, query))
        series = MetricSeries(f"m{after}", MetricKind.SCALAR, "i", [after], [None], [0.0])
        return pack({"r1": [series]}, after + 1 if after + 1 < self.count else None)


def test_all_pages_are_read():
    pages = Pages(3)
    found = metrics.read_all(pages, "/runs/r1/metrics", name=None)
    assert metrics.shaped(found, "r1") == {"m0": 0, "m1": 1, "m2": 2}
    assert [after for _, after, _ in pages.asked] == [0, 1, 2]
    assert all(query == {"name": None, "limit": metrics.NAMES_A_PAGE} for _, _, query in pages.asked)
