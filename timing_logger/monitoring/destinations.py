"""Where a run in progress can be shown: **the table** of kinds, and the options of each.

Options are checked when they are made, and can be passed on as JSON. Nothing is imported or opened until
:meth:`open`, which the thread of the exporter calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from timing_logger.errors import ConfigurationError
from timing_logger.monitoring.exporting import Exporter, Exporting

_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
TAKEN_LABELS = frozenset(
    {"stat", "rank", "state", "verdict", "operation", "owner", "cause", "window", "change"}
)
"""The labels of the figures themselves, which those of a job cannot have."""


@dataclass(frozen=True)
class Prometheus:
    """An endpoint that Prometheus scrapes: ``http://address:port/metrics``.

    Attributes:
        port: of the endpoint, 1 to 65535.
        address: of the interface that it listens on; anybody who reaches it may read it.
        labels: further labels of each series, such as ``{"slurm_job_id": "1670760"}``.

    Raises:
        ConfigurationError: a value is of a wrong type or out of range.
    """

    kind: ClassVar[str] = "prometheus"
    port: int = 9400
    address: str = "127.0.0.1"
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if type(self.port) is not int or not 1 <= self.port <= 65535:
            raise ConfigurationError(f"port must be an integer from 1 to 65535, and is {self.port!r}.")
        _check_text("address", self.address, "name an interface, as '127.0.0.1', or '0.0.0.0' for all")
        _check_labels(self.labels)

    def open(self) -> Exporter:
        """Listen on the port."""
        from timing_logger.monitoring.prometheus import PrometheusEndpoint

        return PrometheusEndpoint(self.port, self.address, self.labels)


@dataclass(frozen=True)
class PrometheusTextfile:
    """A file for the textfile collector of Prometheus' node exporter.

    Attributes:
        path: of the file, which must end in ``.prom``, in a folder that is there.
        labels: further labels of each series.

    Raises:
        ConfigurationError: a value is of a wrong type, or the path ends otherwise.
    """

    kind: ClassVar[str] = "prometheus-textfile"
    path: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_text("path", self.path, "name a file, as '/var/lib/node_exporter/job.prom'")
        if Path(self.path).suffix != ".prom":
            raise ConfigurationError(
                f"path must end in .prom, or the node exporter does not read it, and is {self.path!r}."
            )
        _check_labels(self.labels)

    def open(self) -> Exporter:
        """Write nothing yet."""
        from timing_logger.monitoring.prometheus import PrometheusFile

        return PrometheusFile(Path(self.path), self.labels)


Destination = Prometheus | PrometheusTextfile
"""The options of any kind of exporter."""

KINDS: Mapping[str, type[Destination]] = {one.kind: one for one in (Prometheus, PrometheusTextfile)}
"""The kinds of exporters, by their names in JSON."""


def to_plain(destination: Destination) -> dict[str, Any]:
    """Return options as plain values that JSON can hold, under their names and ``kind``."""
    return {
        "kind": destination.kind,
        **{one.name: getattr(destination, one.name) for one in fields(destination)},
    }


def from_plain(plain: Mapping[str, Any]) -> Destination:
    """Return the options that :func:`to_plain` returned.

    Raises:
        ConfigurationError: the kind or an option is unknown, one is lacking, or a value is wrong.
    """
    given = dict(plain)
    kind = given.pop("kind", None)
    if kind not in KINDS:
        raise ConfigurationError(f"kind must be one of {', '.join(KINDS)}, and is {kind!r}.")
    of_kind = KINDS[kind]
    known = {one.name for one in fields(of_kind)}
    for name in given.keys() - known:
        raise ConfigurationError(f"{name} is no option of {kind}, which has {', '.join(sorted(known))}.")
    try:
        return of_kind(**given)
    except TypeError as error:
        raise ConfigurationError(f"{kind} lacks an option: {error}.") from None


def started(destination: Destination, say: Callable[[str], object]) -> Exporting:
    """Return an exporter at work in a thread of its own.

    Args:
        destination: where it shows the run.
        say: takes a sentence on what goes wrong, once, from another thread.
    """
    return Exporting(destination.kind, destination.open, say)


# -- checks ------------------------------------------------------------------------------------------------


def _check_text(name: str, value: object, way_out: str) -> None:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{name} must be a text that is not empty, and is {value!r}: {way_out}.")


def _check_labels(labels: object) -> None:
    if not isinstance(labels, Mapping):
        raise ConfigurationError(f"labels must be a mapping of names to texts, and is {labels!r}.")
    for name, value in labels.items():
        if not isinstance(name, str) or not _LABEL.fullmatch(name):
            raise ConfigurationError(f"labels has the name {name!r}: use letters, digits and underscores.")
        if name in TAKEN_LABELS:
            raise ConfigurationError(f"labels has the name {name!r}, which figures have: choose another.")
        if not isinstance(value, str):
            raise ConfigurationError(f"labels[{name!r}] must be a text, and is {value!r}.")
