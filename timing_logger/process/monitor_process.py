"""Start the process of a monitor, and hear what it says. It ends when its standard input does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from timing_logger.process.monitor import MonitorSettings

_SITE = str(Path(__file__).parents[1] / "autologging" / "site")
_NOT_PASSED_ON = ("LD_PRELOAD", "TIMING_LOGGER_AUTOLOG")  # it is no rank, and not timed
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Heard = Callable[[Mapping[str, Any]], object]


class MonitorProcess:
    """The process of a monitor.

    Args:
        settings: what it is to do.
        heard: called with each object that it says, ``{"event": ...}`` or ``{"said": ...}``, in a thread of
            its own; at last with ``{"ended": status}``.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, settings: MonitorSettings, heard: Heard) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "timing_logger.live"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=_environment(), start_new_session=True,
        )  # fmt: skip
        self._heard = heard
        self._listener = threading.Thread(target=self._listen, name="timing-logger-monitor", daemon=True)
        self._listener.start()
        with suppress(OSError):  # it is gone already; the listener says so
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(asdict(settings)).encode() + b"\n")
            self._process.stdin.flush()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def close(self, within_s: float) -> None:
        """Let it look a last time and end; do not wait longer than this for what it still says."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._listener.join(within_s)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):
                self._heard(json.loads(line))
        self._heard({"ended": self._process.wait()})


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    path = os.pathsep.join(folder for folder in sys.path if folder and folder != _SITE)
    return {**kept, **_ONE_THREAD, "PYTHONPATH": path}
