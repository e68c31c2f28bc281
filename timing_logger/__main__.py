"""``python -m timing_logger``: the command ``timing-logger``, where its folder is not on the ``PATH``."""

import sys

from timing_logger.cli import main

if __name__ == "__main__":  # processes that are started anew import it too
    sys.exit(main())
