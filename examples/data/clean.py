"""Read the mounted measurements of every station, leave out what was not measured, write them in degrees Celsius."""

import csv
import glob
import os
import sys

from azureml.core import Run

NOT_MEASURED = ""


def clean(source, target):
    """Copy the rows that hold a measurement; return how many did not."""
    with open(source, newline="") as raw, open(target, "w", newline="") as cleaned:
        rows = list(csv.DictReader(raw))
        kept = [row for row in rows if row["fahrenheit"] != NOT_MEASURED]
        writer = csv.writer(cleaned)
        writer.writerow(["day", "celsius"])
        writer.writerows([row["day"], (float(row["fahrenheit"]) - 32) / 1.8] for row in kept)
    return len(rows) - len(kept)


def main():
    measured, cleaned = sys.argv[1:]
    left_out = [
        clean(source, os.path.join(cleaned, os.path.basename(source)))
        for source in sorted(glob.glob(os.path.join(measured, "*.csv")))
    ]
    run = Run.get_context()
    run.log("stations", len(left_out))
    run.log("left_out", sum(left_out))


if __name__ == "__main__":
    main()
