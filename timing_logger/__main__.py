"""Entry point of ``python -m timing_logger``, for when ``timing-logger`` is not on the ``PATH``."""

import sys

from timing_logger.cli import main

if __name__ == "__main__":  # spawned worker processes import this module, too
    sys.exit(main())
