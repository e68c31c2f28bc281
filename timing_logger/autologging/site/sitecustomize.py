"""Runs as each Python process of a job starts that ``timing-logger run`` started.

Python imports the first module of this name that it finds. The user's own, if there is one, runs after this.
Nothing here may raise, print, or leave a trace in the process.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

_HERE = os.path.dirname(os.path.abspath(__file__))


def _time_this_process() -> None:
    if find_spec("timing_logger") is None:  # the job's environment is not that of the command
        sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(_HERE))))
    try:
        from timing_logger.autologging.start import start_if_asked

        start_if_asked()
    except Exception:  # without the package there is nobody to tell it
        pass


def _run_the_users_own() -> None:
    elsewhere = [folder for folder in sys.path if os.path.abspath(folder or os.curdir) != _HERE]
    sys.path[:] = elsewhere
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_time_this_process()
_run_the_users_own()
