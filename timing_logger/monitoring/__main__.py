"""The process of a monitor: ``python -m timing_logger.monitoring``, as ``monitor_process.py`` starts it."""

from __future__ import annotations

import os

from timing_logger.monitoring.process import main

os._exit(main())  # what libraries of exporters still want to do at exit may take long, and nobody waits for it
