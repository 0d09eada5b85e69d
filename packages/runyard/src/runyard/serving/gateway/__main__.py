import sys
from pathlib import Path

from runyard.serving.gateway.process import main

sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None))
