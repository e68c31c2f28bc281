"""The runtime profiler's options, which are checked once, before training starts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from timing_logger.errors import ConfigurationError
from timing_logger.recording.logger import TimingLogger
from timing_logger.recording.sampling import check_integer
from timing_logger.sinks.scalars import LogWriter, ScalarWriter

LOG_NAME = "timing_logger"

_PLACES = {
    "profile_training": ("training", "profile_training"),
    "log_scalars_every_n_steps": ("logging", "log_scalars_every_n_steps"),
    "dataloader_names": ("data", "train", "dataloader_names"),
}
"""The path of each option in a configuration file."""


class RuntimeArguments(TypedDict, total=False):
    """The arguments of :class:`timing_logger.compat.RuntimeProfiler` after ``writer``."""

    profile_training: bool
    dataloader_names: Sequence[str] | None
    log_scalars_every_n_steps: int | None
    rank: int
    synchronize: bool
    timing_logger: TimingLogger | None
    log: bool | logging.Logger


@dataclass(slots=True, kw_only=True)
class RuntimeOptions:
    """The options of a profiler; see :class:`timing_logger.compat.RuntimeProfiler` for meanings.

    Raises:
        ConfigurationError: a value is of the wrong type or out of range, or contradicts another.
    """

    writer: ScalarWriter | Sequence[ScalarWriter] | None = None
    profile_training: bool = True
    dataloader_names: Sequence[str] | None = None
    log_scalars_every_n_steps: int | None = None
    rank: int = 0
    synchronize: bool = False
    timing_logger: TimingLogger | None = None
    log: bool | logging.Logger = False

    def __post_init__(self) -> None:
        for name in ("profile_training", "synchronize"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigurationError(f"{name} must be True or False, and is {getattr(self, name)!r}.")
        self.rank = check_integer("rank", self.rank, minimum=0)
        if self.log_scalars_every_n_steps is not None:
            every_n = check_integer("log_scalars_every_n_steps", self.log_scalars_every_n_steps, minimum=1)
            self.log_scalars_every_n_steps = every_n
        if self.dataloader_names is not None:
            self.dataloader_names = _distinct_names(self.dataloader_names)
        if not isinstance(self.timing_logger, TimingLogger | None):
            raise ConfigurationError(f"timing_logger must be a TimingLogger, and is {self.timing_logger!r}.")
        writes_nothing = not self.writers and self.timing_logger is None
        if writes_nothing and self.profile_training and self.rank == 0:
            raise ConfigurationError(
                "writer and timing_logger are None and log is False, so there is nowhere to write to: give "
                "one, or pass profile_training=False."
            )

    @property
    def writers(self) -> list[ScalarWriter]:
        """The writers of this rank's scalars: none, unless it is rank 0 and profiles."""
        writers = [*_writers(self.writer), *_log_writers(self.log)]
        return writers if self.profile_training and self.rank == 0 else []


def options_from_config(config: Mapping[str, object], options: Mapping[str, object]) -> dict[str, Any]:
    """Return ``options`` together with those of :data:`_PLACES` that ``config`` has.

    Raises:
        ConfigurationError: a group is no mapping, or an option has two values.
    """
    found = dict(options)
    for name, (*groups, key) in _PLACES.items():
        group: Any = config
        for depth in range(len(groups) + 1):
            if not isinstance(group, Mapping):
                where = ".".join(groups[:depth]) or "config"
                raise ConfigurationError(f"{where} must be a mapping of names to values, and is {group!r}.")
            if depth < len(groups):
                group = {} if group.get(groups[depth]) is None else group[groups[depth]]
        if key not in group:
            continue
        if name in options and options[name] != group[key]:
            raise ConfigurationError(
                f"{name}={options[name]!r} contradicts {'.'.join(groups)}.{key}={group[key]!r} of the "
                "configuration: leave one of them out."
            )
        found[name] = group[key]
    return found


def _distinct_names(names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigurationError(f"dataloader_names must be a list of names, and is {names!r}.")
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"dataloader_names must be texts that are not empty, and are {names!r}.")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"dataloader_names must differ from each other, and are {names!r}.")
    return list(names)


def _writers(writer: Any) -> list[ScalarWriter]:
    given = [] if writer is None else list(writer) if isinstance(writer, list | tuple) else [writer]
    for each in given:
        if not callable(getattr(each, "add_scalar", None)):
            raise ConfigurationError(
                f"writer must have add_scalar(tag, value, step), or be a list of such, and is {each!r}."
            )
    return given


def _log_writers(log: bool | logging.Logger) -> list[LogWriter]:
    if isinstance(log, logging.Logger):
        return [LogWriter(log)]
    if not isinstance(log, bool):
        raise ConfigurationError(f"log must be True, False or a logging.Logger, and is {log!r}.")
    return [LogWriter(logging.getLogger(LOG_NAME))] if log else []
