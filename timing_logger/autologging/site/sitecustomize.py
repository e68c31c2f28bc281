"""Runs as each Python process of a job starts, also where the package is not installed: it is on PYTHONPATH.

Python imports the first module of this name that it finds. The user's own, if there is one, runs after this.
Nothing here may raise, print, or leave a trace in the process.
"""

import os
import sys

_HERE = os.path.dirname(__file__)


def _time_this_process() -> None:
    try:  # noqa: SIM105  (contextlib may be a module of the program's)
        __import__("_timing_logger_start").wait_for_ranks()
    except Exception:
        pass


def _run_the_users_own() -> None:
    sys.path[:] = [folder for folder in sys.path if folder != _HERE]
    ours = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")  # another one: the folder of this one is no longer on the path
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)


_time_this_process()
_run_the_users_own()
