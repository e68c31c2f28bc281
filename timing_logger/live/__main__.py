"""The process of a monitor: ``python -m timing_logger.live``, as ``process/monitor.py`` starts it."""

from __future__ import annotations

import os

from timing_logger.live.monitor_loop import main

os._exit(main())  # at exit, libraries of exporters may still do what takes long, and nobody waits for that
