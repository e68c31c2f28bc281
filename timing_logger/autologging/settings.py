"""What ``timing-logger run`` tells the processes of a job, and they tell it; and which rank one is."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from timing_logger.errors import ConfigurationError
from timing_logger.process import launchers
from timing_logger.process.launchers import Launcher
from timing_logger.process.shared_files import make_folder, replace
from timing_logger.process.this_process import identity
from timing_logger.schema.defaults import HANG_AFTER_S

VARIABLE = "TIMING_LOGGER_AUTOLOG"

HANG_AFTER = "TIMING_LOGGER_HANG_AFTER"
"""The environment variable that says after how many seconds a call hangs."""

MESSAGES = "autolog-messages-*.txt"
"""The files that have what the logger warns of."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a job is timed.

    Attributes:
        log_dir: the folder of the timing files; an absolute path, since programs change theirs.
        every: record every Nth iteration only, 1 for all.
        batch_work: whether rows of loaded batches state how much these are.
        host_counters: whether a file beside each timing file has what the host counted, once a second.
        stack_samples: whether another has where the main thread was, five times a second.
    """

    log_dir: str
    every: int = 1
    batch_work: bool = True
    host_counters: bool = True
    stack_samples: bool = False

    def to_environment(self) -> dict[str, str]:
        """Return the variable from which :func:`from_environment` makes these settings."""
        return {VARIABLE: json.dumps(asdict(self))}


def from_environment() -> Settings | None:
    """Return the settings of this process's job; None if it is not timed.

    Raises:
        ConfigurationError: the variable is not what :meth:`Settings.to_environment` returns.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    try:
        return Settings(**json.loads(text))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the environment variable {VARIABLE} is set by `timing-logger run`, and is {text!r}: {error}. "
            "Unset it."
        ) from error


def problem_file(launch_id: str, process: str) -> str:
    """Return the name of the file in which a process says what went wrong: its own output is left as it is.

    Args:
        launch_id: which ``timing-logger run`` started the process; "" for none.
        process: the process's number, or ``*`` for the pattern of all such names.
    """
    return f"autolog-problem-{launch_id}-{process}.txt"


def hang_after_s(environment: Mapping[str, str] = os.environ) -> float:
    """Return after how many seconds a call hangs, as the environment says; the usual time if it does not.

    Args:
        environment: the environment variables.
    """
    try:
        stated = float(environment.get(HANG_AFTER, ""))
    except ValueError:
        return HANG_AFTER_S
    return stated if 0 < stated < 1e9 else HANG_AFTER_S


def note_problem(log_dir: str) -> None:
    """Leave the exception that is being handled in a file of the log folder, if it can be written."""
    path = Path(log_dir, problem_file(identity().launch_id, str(os.getpid())))
    try:
        make_folder(path.parent)
        replace(path, traceback.format_exc().encode())
    except OSError:
        pass


# -- which rank this process is, as its launcher says ----------------------------------------------------


class Rank(NamedTuple):
    """A process's place in its job.

    Attributes:
        rank: from 0.
        world_size: the number of ranks; None if it is not known.
    """

    rank: int
    world_size: int | None


def stated_rank(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """Return what the launcher states of this process; None without a launcher.

    Args:
        environment: the environment variables.
    """
    return _first_of(launchers.LAUNCHERS, environment)


def rank_of_mpi(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """Return what a launcher of MPI states of this process; None without one, or if it is another's rank.

    Args:
        environment: the environment variables.
    """
    rank = _first_of([one for one in launchers.LAUNCHERS if one.is_mpi], environment)
    return rank if rank == stated_rank(environment) else None


def _first_of(among: Sequence[Launcher], environment: Mapping[str, str]) -> Rank | None:
    for one in among:
        rank, size = _number(environment.get(one.rank)), _number(environment.get(one.size))
        if rank is not None and (size is None or rank < size):
            return Rank(rank, size)
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
