"""Starts the timing in a Python process of a job of ``timing-logger run``, once it imports what ranks do.

Every Python of the job runs this as it starts, so nothing else is imported before: the program may have
modules with names of the standard library's, or one called ``timing_logger``. Nothing here raises or prints.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

VARIABLE = "TIMING_LOGGER_AUTOLOG"
"""The settings, see ``timing_logger.autologging.settings``."""

_OF_RANKS = ("torch", "mpi4py.MPI")


def wait_for_ranks() -> None:
    """Have the timing start just before the process imports torch or MPI. A second call changes nothing."""
    if _Waiting.begun:
        return
    _Waiting.begun = True
    if any(name in sys.modules for name in _OF_RANKS):
        _start_quietly()
    else:
        sys.meta_path.insert(0, _Waiting())


class _Waiting:
    """Finds no module, but sees which are looked for."""

    begun = False

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name not in _OF_RANKS or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        _start_quietly()
        # The search goes on by a list that has changed: do it anew.
        looks = [getattr(finder, "find_spec", None) for finder in sys.meta_path]
        return next(filter(None, (look(name, path, target) for look in looks if look)), None)


def _start_quietly() -> None:
    try:
        _start()
    except (Exception, SystemExit) as error:
        _note(error)


def _start() -> None:
    from importlib.util import find_spec

    spec = find_spec("timing_logger")
    if spec is None:  # the job's environment is not that of the command
        sys.path.append(_folder_of_the_package())
    elif not any(os.path.isdir(f"{there}/autologging") for there in spec.submodule_search_locations or ()):
        raise ImportError(
            f"the name timing_logger is taken by {spec.origin}: rename it to have the job timed"
        )
    from timing_logger.autologging.start import start_if_asked

    start_if_asked()


def _folder_of_the_package() -> str:
    folder = os.path.dirname(os.path.abspath(__file__))
    while not os.path.isdir(os.path.join(folder, "timing_logger")) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder


def _note(error: BaseException) -> None:
    """Leave the error where the command looks for it."""
    try:
        from json import loads

        told = loads(os.environ[VARIABLE])
        run_id = os.environ.get("TIMING_LOGGER_RUN_ID", "")
        path = os.path.join(told["log_dir"], f"autolog-problem-{run_id}-{os.getpid()}.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{type(error).__name__}: {error}\n")
    except Exception:  # such as a module called json
        pass
