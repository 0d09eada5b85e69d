import os
from pathlib import Path


def mnist_folder() -> Path | None:
    """Where the four files of MNIST lie: RUNYARD_MNIST, or beside the checkout."""
    given = os.environ.get("RUNYARD_MNIST")
    beside = Path(__file__).parents[2] / "shared" / "data" / "mnist"
    return next((folder for folder in (Path(given) if given else beside, beside) if folder.is_dir()), None)
