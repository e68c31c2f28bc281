"""The logger's options, which are checked once, before training starts.

:class:`Options` defines them: name, type and default. :class:`LoggerOptions` repeats names and types, since a
type checker learns the keywords of a function with ``**options`` from nothing else; a test compares the two.
What they mean stands in the docstring of :class:`timing_logger.TimingLogger`.
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from timing_logger.errors import ConfigurationError
from timing_logger.process.monitor import Monitor
from timing_logger.recording.sampling import StepPolicy, check_integer
from timing_logger.schema import defaults
from timing_logger.schema.timing_files import MAX_RANK
from timing_logger.sinks import Sink

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_MOST_SECONDS = 10**9
"""The longest time allowed, about 30 years: no thread can wait for much longer at once."""

_INTEGERS = {
    "rank": 0,
    "world_size": 1,
    "maxsize": 1,
    "start_step": 0,
    "end_step": 0,
    "record_every_n_steps": 1,
}
"""Options that are integers, each with its least value."""

_MOST = {"rank": MAX_RANK, "world_size": MAX_RANK + 1}

_OPTIONAL = {"world_size", "end_step"}

_NOT_OF_THE_RUN = {"enabled", "monitor", "sinks"}
"""Options that a sidecar does not state: it exists where the logger is on, and the others are no JSON."""

F = TypeVar("F", bound=Callable[..., Any])


class LoggerOptions(TypedDict, total=False):
    """The options as keyword arguments: of :class:`timing_logger.TimingLogger`, and of its callers."""

    world_size: int | None
    labels: Mapping[str, object] | None
    flush_interval: float
    maxsize: int
    ranks: Collection[int] | None
    start_step: int
    end_step: int | None
    record_every_n_steps: int
    enabled: bool
    device_timeout: float
    hang_after: float
    handle_sigterm: bool
    pause_rows: bool
    host_counters: bool
    stack_samples: bool
    fsync: bool
    max_file_mb: float | None
    file_mode: int
    ring_dir: str | os.PathLike[str] | None
    monitor: Monitor | None
    sinks: Sequence[Sink]


class RunFacts(TypedDict):
    """The fields of a sidecar that the options fill; ``options`` holds those without a field of their own."""

    rank: int
    world_size: int | None
    labels: dict[str, object]
    options: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Options:
    """The options of a logger; see :class:`timing_logger.TimingLogger` for meanings and units.

    Raises:
        ConfigurationError: a value is out of range or contradicts another.
    """

    rank: int
    world_size: int | None = None
    labels: Mapping[str, object] | None = None
    flush_interval: float = defaults.FLUSH_INTERVAL_S
    maxsize: int = defaults.QUEUE_RECORDS
    ranks: Collection[int] | None = None
    start_step: int = 0
    end_step: int | None = None
    record_every_n_steps: int = 1
    enabled: bool = True
    device_timeout: float = defaults.DEVICE_TIMEOUT_S
    hang_after: float = defaults.HANG_AFTER_S
    handle_sigterm: bool = False
    pause_rows: bool = False
    host_counters: bool = False
    stack_samples: bool = False
    fsync: bool = False
    max_file_mb: float | None = None
    file_mode: int = defaults.FILE_MODE
    ring_dir: str | os.PathLike[str] | None = None
    monitor: Monitor | None = None
    sinks: Sequence[Sink] = ()

    @classmethod
    def of(cls, rank: int, given: LoggerOptions) -> Options:
        """Return the options of a logger that was given these; the others have their defaults.

        Raises:
            TypeError: an option is unknown. Python says so of an argument in the same words.
            ConfigurationError: as for the class.
        """
        for name in given:
            if name not in cls.__slots__:
                raise TypeError(f"TimingLogger.__init__() got an unexpected keyword argument {name!r}")
        return cls(rank=rank, **given)

    def __post_init__(self) -> None:
        for name, minimum in _INTEGERS.items():
            value = getattr(self, name)
            if value is not None or name not in _OPTIONAL:
                setattr(self, name, check_integer(name, value, minimum=minimum, maximum=_MOST.get(name)))
        for name in ("flush_interval", "device_timeout", "hang_after"):
            _check_seconds(name, getattr(self, name))
        _check_megabytes("max_file_mb", self.max_file_mb)
        self.file_mode = _checked_mode("file_mode", self.file_mode)
        self.ring_dir = _checked_folder("ring_dir", self.ring_dir)
        _check_monitor(self.monitor)
        self.labels = _json_object(self.labels)
        self.ranks = None if self.policy.ranks is None else sorted(map(operator.index, self.policy.ranks))
        for name, rank in (("rank", self.rank), *(("ranks", rank) for rank in self.ranks or ())):
            if self.world_size is not None and rank >= self.world_size:
                raise ConfigurationError(
                    f"{name}={rank} is not below world_size={self.world_size}: ranks count from 0."
                )

    @property
    def policy(self) -> StepPolicy:
        """The policy that selects the recorded iterations and ranks."""
        return StepPolicy(
            start_step=self.start_step,
            end_step=self.end_step,
            record_every_n_steps=self.record_every_n_steps,
            ranks=self.ranks,
        )

    def for_sidecar(self) -> RunFacts:
        """Return the options as JSON values: rank, world size, labels, and the others in ``options``."""
        names = (field.name for field in fields(self) if field.name not in _NOT_OF_THE_RUN)
        rest = {name: getattr(self, name) for name in names}
        return {
            "rank": rest.pop("rank"),
            "world_size": rest.pop("world_size"),
            "labels": rest.pop("labels"),
            "options": rest,
        }


def shows_options(of: type[DataclassInstance]) -> Callable[[F], F]:
    """Show each option, with its default, in the signature of a method that takes ``**options``.

    For ``help`` and for completion in notebooks, which ask for the signature while the program runs.
    """

    def showing(method: F) -> F:
        stated = signature(method)
        named = [each for each in stated.parameters.values() if each.kind is not each.VAR_KEYWORD]
        options = [
            Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
            for field in fields(of)
            if field.name not in stated.parameters
        ]
        vars(method)["__signature__"] = stated.replace(parameters=[*named, *options])
        return method

    return showing


def _check_seconds(name: str, value: float) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value <= _MOST_SECONDS:
        raise ConfigurationError(f"{name} must be seconds > 0, at most {_MOST_SECONDS}, and is {value!r}.")


def _check_megabytes(name: str, value: float | None) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and not (is_number and value >= 1):
        raise ConfigurationError(f"{name} must be megabytes >= 1, or None for no limit, and is {value!r}.")


def _checked_mode(name: str, value: int) -> int:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or not 0 <= value <= 0o777 or value & 0o600 != 0o600:
        said = f"{value:#o}" if is_integer else repr(value)
        raise ConfigurationError(
            f"{name} must be an integer up to 0o777 that lets the owner read and write, such as 0o600 or "
            f"0o640, and is {said}."
        )
    return int(value)


def _checked_folder(name: str, value: str | os.PathLike[str] | None) -> str | None:
    if value is None:
        return None
    try:
        return os.fsdecode(value)
    except TypeError:
        raise ConfigurationError(f"{name} must be the path of a folder, or None, and is {value!r}.") from None


def _check_monitor(value: Monitor | None) -> None:
    if value is not None and not isinstance(value, Monitor):
        raise ConfigurationError(f"monitor must be a timing_logger.Monitor, or None, and is {value!r}.")


def _json_object(labels: Mapping[str, object] | None) -> dict[str, object]:
    try:
        return dict(json.loads(json.dumps(dict(labels or {}), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"labels must be a mapping of JSON values: {error}.") from error
