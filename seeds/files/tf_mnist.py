"""The pages' training script: the example's own, after a look at where its data lies."""

import runpy
import sys

from mounted_data import log_where_it_lies

log_where_it_lies(sys.argv[sys.argv.index("--data-folder") + 1])
runpy.run_path("train_mnist.py", run_name="__main__")
