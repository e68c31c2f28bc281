"""The command line on workers of a given kind, which stands still at one place and says that it does.

Run: standing.py PLACE WORKERS STANDS COMMAND ...

PLACE is where it stands, WORKERS "threads" or "processes", STANDS the file that it makes then. It stands
until there is a file STANDS.go. A worker process imports this file as its main program, and so stands, too.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import timing_logger.engine.rows as rows
import timing_logger.engine.run as engine
import timing_logger.reading.timings as timings
import timing_logger.report.trace as trace
from timing_logger.cli import main, stderr
from timing_logger.engine.workers import Processes, Threads

if __name__ == "__main__":
    os.environ |= dict(zip(("PLACE", "WORKERS", "STANDS"), sys.argv[1:4], strict=True))
    sys.argv[1:4] = []
PLACE, WORKERS, STANDS = os.environ["PLACE"], os.environ["WORKERS"], Path(os.environ["STANDS"])
_LIMIT_S = 120.0


def stand(until: Callable[[], bool]) -> None:
    STANDS.touch()
    deadline = time.monotonic() + _LIMIT_S
    while not until() and time.monotonic() < deadline:
        time.sleep(0.01)


def stand_in_c() -> None:
    """A call that takes minutes and looks at no signal, as those of NumPy, pandas and pyarrow."""
    STANDS.touch()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)


def told() -> bool:
    return STANDS.with_name(STANDS.name + ".go").exists()


def before(module: Any, name: str, first: Callable[[], None]) -> None:
    """Have ``first`` called before a function of a module, each time."""
    function = getattr(module, name)

    def called(*arguments: Any, **named: Any) -> Any:
        first()
        return function(*arguments, **named)

    setattr(module, name, called)


rows.batches_of = partial(rows.batches_of, n_bytes=1)  # type: ignore[attr-defined]  # each file is one

if PLACE == "finding":
    before(timings, "_warn_of_what_lacks", lambda: stand(told))
elif PLACE == "reading":
    before(rows, "read_batch", lambda: stand(told))
elif PLACE == "reading-in-c":
    before(rows, "read_batch", stand_in_c)
elif PLACE == "answering-in-c":
    before(engine, "answers_from", stand_in_c)
elif PLACE == "communication":
    before(engine, "in_one_table", lambda: stand(told))
elif PLACE == "writing":
    before(trace, "row_events", stand_in_c)

if __name__ == "__main__":
    kind = {"threads": Threads, "processes": Processes}[WORKERS]
    engine._threads_or_processes = lambda most: kind(2)  # type: ignore[assignment]
    if "--at-once" in sys.argv:
        sys.argv.remove("--at-once")
        stderr._QUIET_S = 0.0
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in jobs in the background
    assert threading.active_count() == 1
    sys.exit(main())
