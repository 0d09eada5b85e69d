"""`python -m bench [NAME ...]`: every measurement, or those of the named rows; one JSON line each."""

import importlib
import signal
import sys
from contextlib import redirect_stdout

ROWS = (
    "import_time",
    "first_line",
    "throughput",
    "completion",
    "log_call",
    "points_readable",
    "line_latency",
    "env_cache_hit",
    "install",
    "env_build_tf113",
    "env_herd",
    "container_first_line",
    "image_one_package",
    "run_queries",
    "metric_history",
    "sweep_queries",
    "outputs",
    "mount_large",
    "mount_small",
    "mount_setup",
    "upload_files",
    "download_dataset",
    "table_reading",
    "gang",
    "horovod_epoch",
    "ddp_steps",
    "ray_gang",
    "ray_throughput",
    "gpu_step",
    "serve_noop",
    "serve_sklearn",
    "deploy_service",
    "failing_init",
    "update_under_load",
    "serving_memory",
    "sweep_child_cost",
    "stopping_decision",
    "bayesian",
)


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        print(f"There is no bench {unknown[0]!r}; known: {', '.join(ROWS)}.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that a row ends what it has started
    lines = sys.stdout
    with redirect_stdout(sys.stderr):  # what the SDK prints is no measurement
        for name in names or ROWS:
            for measurement in importlib.import_module(f"bench.{name}").measure():
                print(measurement.line(), file=lines, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
