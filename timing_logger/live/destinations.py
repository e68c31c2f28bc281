"""Where a run in progress can be shown: **the table** of kinds, the options of each, and a thread for each.

Options are checked when they are made, and pass through JSON. Nothing is imported or opened until ``open``,
which the thread of the exporter calls. Secrets are no options: the libraries look for them in the
environment, and a command line can be read by everybody on the machine.

What shows a run may be slow, dead or wrong, which costs whoever follows the run nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, get_args
from urllib.parse import urlsplit

from timing_logger.errors import ConfigurationError

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.live.watcher import Snapshot

WandBMode = Literal["online", "offline"]


class _Options:
    """What the options of all kinds have."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the options as values that JSON can hold: ``kind``, and each under its name."""
        names = ("kind", *(one.name for one in fields(self)))  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Prometheus(_Options):
    """An endpoint that Prometheus scrapes: ``http://address:port/metrics``.

    Attributes:
        port: of the endpoint, 1 to 65535.
        address: of the interface that it listens on; whoever reaches it may read it.
        labels: further labels of each series, such as ``{"slurm_job_id": "1670760"}``.

    Raises:
        ConfigurationError: a value is of a wrong type or out of range.
    """

    kind: ClassVar[str] = "prometheus"
    port: int = 9400
    address: str = "127.0.0.1"
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_port("port", self.port)
        check_text("address", self.address, "name an interface, as '127.0.0.1', or '0.0.0.0' for all")
        check_labels(self.labels)

    def open(self) -> Exporter:
        """Listen on the port."""
        from timing_logger.live.prometheus import PrometheusEndpoint

        return PrometheusEndpoint(self.port, self.address, self.labels)


@dataclass(frozen=True)
class PrometheusTextfile(_Options):
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
        check_text("path", self.path, "name a file, as '/var/lib/node_exporter/job.prom'")
        if Path(self.path).suffix != ".prom":
            raise ConfigurationError(
                f"path must end in .prom, or the node exporter does not read it, and is {self.path!r}."
            )
        check_labels(self.labels)

    def open(self) -> Exporter:
        """Write nothing yet."""
        from timing_logger.live.prometheus import PrometheusFile

        return PrometheusFile(Path(self.path), self.labels)


@dataclass(frozen=True)
class OpenTelemetry(_Options):
    """A collector of OpenTelemetry that takes metrics over HTTP.

    Attributes:
        endpoint: the whole URL, which mostly ends in ``/v1/metrics``.
        timeout_s: how long the figures of one look may take to arrive, in seconds.
        labels: further attributes of each figure.

    Raises:
        ConfigurationError: a value is of a wrong type or out of range, or the URL has no path.
    """

    kind: ClassVar[str] = "opentelemetry"
    endpoint: str = "http://localhost:4318/v1/metrics"
    timeout_s: float = 5.0
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_url("endpoint", self.endpoint, "/v1/metrics")
        check_seconds("timeout_s", self.timeout_s)
        check_labels(self.labels)

    def open(self) -> Exporter:
        """Connect to nothing yet."""
        from timing_logger.live.opentelemetry import OpenTelemetryMetrics

        return OpenTelemetryMetrics(self.endpoint, self.timeout_s, self.labels)


@dataclass(frozen=True)
class TensorBoard(_Options):
    """A folder that TensorBoard shows.

    Attributes:
        folder: is made if it is not there; other event files in it are left alone.

    Raises:
        ConfigurationError: the folder is no text.
    """

    kind: ClassVar[str] = "tensorboard"
    folder: str

    def __post_init__(self) -> None:
        check_text("folder", self.folder, "name a folder, as 'runs/timing'")

    def open(self) -> Exporter:
        """Make the folder and an event file in it."""
        from timing_logger.live.trackers import TensorBoardWriter, Tracked

        return Tracked(TensorBoardWriter(self.folder))


@dataclass(frozen=True)
class WandB(_Options):
    """A run of its own in Weights & Biases.

    Attributes:
        project: of the run.
        entity: the user or team; "" for the default one.
        name: of the run; "" for one that is made up.
        group: the runs that it stands among, such as those of the same training; "" for none.
        mode: ``online``, or ``offline`` for files that ``wandb sync`` sends later.
        folder: in which it makes its folder ``wandb``; it must be there.

    Raises:
        ConfigurationError: a value is of a wrong type, or the mode is unknown.
    """

    kind: ClassVar[str] = "wandb"
    project: str
    entity: str = ""
    name: str = ""
    group: str = ""
    mode: WandBMode = "online"
    folder: str = "."

    def __post_init__(self) -> None:
        check_text("project", self.project, "name a project")
        check_may_be_empty(entity=self.entity, name=self.name, group=self.group)
        check_text("folder", self.folder, "name a folder, as '.'")
        if self.mode not in get_args(WandBMode):
            raise ConfigurationError(f"mode must be 'online' or 'offline', and is {self.mode!r}.")

    def open(self) -> Exporter:
        """Begin the run."""
        from timing_logger.live.trackers import Tracked, WandBWriter

        named = {"entity": self.entity, "name": self.name, "group": self.group}
        known = {name: value for name, value in named.items() if value}
        online = self.mode == "online"  # without a login that is an error, and not another mode in silence
        where = {"project": self.project, "mode": self.mode, "dir": self.folder, "force": online}
        return Tracked(WandBWriter({**where, **known}))


@dataclass(frozen=True)
class MLflow(_Options):
    """A run in MLflow: that of the training, or a new one.

    Attributes:
        tracking_uri: of the server or the store, such as ``http://localhost:5000`` or ``sqlite:///runs.db``.
        experiment: the name of the experiment of a new run.
        name: of the new run; "" for one that is made up.
        run_id: of the training's own run, to which the figures are added; "" for a new run.

    Raises:
        ConfigurationError: a value is of a wrong type, or both a run and a new one are asked for.
    """

    kind: ClassVar[str] = "mlflow"
    tracking_uri: str
    experiment: str = "timing_logger"
    name: str = ""
    run_id: str = ""

    def __post_init__(self) -> None:
        check_text("tracking_uri", self.tracking_uri, "name a server or a store, as 'sqlite:///runs.db'")
        check_text("experiment", self.experiment, "name an experiment")
        check_may_be_empty(name=self.name, run_id=self.run_id)
        if self.run_id and self.name:
            raise ConfigurationError(
                "name is that of a new run, and run_id that of another: give one of them."
            )

    def open(self) -> Exporter:
        """Begin the run, or find it."""
        from timing_logger.live.trackers import MLflowWriter, Tracked

        return Tracked(MLflowWriter(self.tracking_uri, self.experiment, self.name, self.run_id))


Destination: TypeAlias = Prometheus | PrometheusTextfile | OpenTelemetry | TensorBoard | WandB | MLflow
"""The options of an exporter of any kind."""

KINDS: Mapping[str, type[Destination]] = {one.kind: one for one in get_args(Destination)}
"""The kinds of exporters, by their names in JSON."""


def from_json(plain: Mapping[str, Any]) -> Destination:
    """Return the options that ``to_json`` returned; those that are left out have their defaults.

    Raises:
        ConfigurationError: the kind or an option is unknown, one is lacking, or a value is wrong.
    """
    given = dict(plain)
    kind = given.pop("kind", None)
    if kind not in KINDS:
        raise ConfigurationError(f"kind must be one of {', '.join(KINDS)}, and is {kind!r}.")
    known = {one.name for one in fields(KINDS[kind])}
    for name in given.keys() - known:
        raise ConfigurationError(f"{name} is no option of {kind}, which has {', '.join(sorted(known))}.")
    try:
        return KINDS[kind](**given)
    except TypeError as error:
        raise ConfigurationError(f"{kind} lacks an option: {error}.") from None


def started(destination: Destination, say: Callable[[str], object]) -> Exporting:
    """Return an exporter at work in a thread of its own.

    Args:
        destination: where it shows the run.
        say: takes a sentence on what goes wrong, once, from another thread.
    """
    return Exporting(destination.kind, destination.open, say)


# -- what options may be ---------------------------------------------------------------------------------


TAKEN_LABELS = frozenset({
    "stat", "rank", "state", "verdict", "operation", "owner", "cause", "window", "change",
})  # fmt: skip
"""The labels of the figures themselves, which those of a job cannot have."""

_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_MOST_S = 3600.0


def check_text(name: str, value: object, way_out: str) -> None:
    """Refuse what is no text, or an empty one."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{name} must be a text that is not empty, and is {value!r}: {way_out}.")


def check_may_be_empty(**values: object) -> None:
    """Refuse what is no text."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise ConfigurationError(f"{name} must be a text, which may be empty, and is {value!r}.")


def check_port(name: str, value: object) -> None:
    """Refuse what is no port that a scraper could be told of."""
    if type(value) is not int or not 1 <= value <= 65535:
        raise ConfigurationError(f"{name} must be an integer from 1 to 65535, and is {value!r}.")


def check_seconds(name: str, value: object) -> None:
    """Refuse what is no time in seconds that anybody would wait."""
    if type(value) not in (int, float) or not 0 < value <= _MOST_S:  # type: ignore[operator]
        raise ConfigurationError(f"{name} must be seconds > 0, at most {_MOST_S:.0f}, and is {value!r}.")


def check_url(name: str, value: object, path: str) -> None:
    """Refuse what is no URL with a path, such as ``path``."""
    check_text(name, value, f"name a URL, as 'http://localhost:4318{path}'")
    parts = urlsplit(str(value))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigurationError(f"{name} must begin with http:// or https:// and a host, and is {value!r}.")
    if parts.path in ("", "/"):
        raise ConfigurationError(f"{name} must be the whole URL, and is {value!r}: append {path}.")


def check_labels(labels: object) -> None:
    """Refuse labels of a job that Prometheus would not take, or that figures have themselves."""
    if not isinstance(labels, Mapping):
        raise ConfigurationError(f"labels must be a mapping of names to texts, and is {labels!r}.")
    for name, value in labels.items():
        if not isinstance(name, str) or not _LABEL.fullmatch(name):
            raise ConfigurationError(f"labels has the name {name!r}: use letters, digits and underscores.")
        if name in TAKEN_LABELS:
            raise ConfigurationError(f"labels has the name {name!r}, which figures have: choose another.")
        if not isinstance(value, str):
            raise ConfigurationError(f"labels[{name!r}] must be a text, and is {value!r}.")


# -- an exporter at work ---------------------------------------------------------------------------------
# Each exporter has a thread of its own and a place for one snapshot: what was not shown when the next one
# comes is never shown, but a change is, with the next snapshot. What fails is tried again with the next
# snapshot, counted, and said once.


CLOSE_S = 5.0
"""How long the end of a job waits for an exporter, in seconds: a slow one may miss the last snapshot."""

_FAILURES = (Exception, SystemExit)  # some libraries end the process, which nothing here may do


class Exporter(Protocol):
    """What shows a run in progress somewhere."""

    def show(self, snapshot: Snapshot, change: Change | None) -> None:
        """Show the state of the run, and what changes with it. Raises what goes wrong; may take long."""

    def close(self) -> None:
        """Give back what is held, once, after what was shown has arrived as far as it can."""


class Exporting:
    """An exporter in a thread of its own: none of its methods raises, and only :meth:`close` waits.

    Attributes:
        shown: snapshots that were shown.
        replaced: snapshots that a newer one replaced before they were shown.
        errors: how often opening, showing or closing failed.

    Args:
        name: of the exporter, for what is said.
        open_it: returns the exporter; what it raises is said as well, and it is called again with the next
            snapshot.
        say: takes a sentence for people, from another thread.
    """

    def __init__(self, name: str, open_it: Callable[[], Exporter], say: Callable[[str], object]) -> None:
        self.shown = self.replaced = self.errors = 0
        self._name, self._open, self._say = name, open_it, say
        self._exporter: Exporter | None = None
        self._changed = Condition()
        self._waiting: tuple[Snapshot, Change | None] | None = None
        self._closing = False
        self._owed: Change | None = None
        self._thread = Thread(target=self._run, name=f"timing_logger exporter {name}", daemon=True)
        self._thread.start()

    def show(self, snapshot: Snapshot, change: Change | None = None) -> None:
        """Leave a snapshot to be shown, in the place of one that still waits."""
        with self._changed:
            if self._waiting is not None:
                self.replaced += 1
                change = change or self._waiting[1]
            self._waiting = snapshot, change
            self._changed.notify()

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Let the last snapshot be shown, and close the exporter; wait no longer than this, in seconds.

        Returns whether it is done. If not, its library may hold up the end of the process: ``os._exit``
        does not wait for it.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        is_done = not self._thread.is_alive()
        if not is_done:
            self._fails(f"is not done after {timeout_s:g} s, and is left behind")
        return is_done

    def _run(self) -> None:
        while one := self._next():
            self._try("cannot show the job", partial(self._show, *one))
        if self._exporter is not None:
            self._try("cannot be closed", self._exporter.close)

    def _next(self) -> tuple[Snapshot, Change | None] | None:
        """Return the next snapshot, once there is one; None when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is not None or self._closing)
            taken, self._waiting = self._waiting, None
            return taken

    def _show(self, snapshot: Snapshot, change: Change | None) -> None:
        self._owed = change or self._owed
        if self._exporter is None:
            self._exporter = self._open()
        self._exporter.show(snapshot, self._owed)
        self.shown += 1
        self._owed = None

    def _try(self, what: str, call: Callable[[], None]) -> None:
        try:
            call()
        except _FAILURES as error:
            self._fails(f"{what}: {_in_a_line(error)}")

    def _fails(self, how: str) -> None:
        self.errors += 1
        if self.errors == 1:
            with suppress(*_FAILURES):
                self._say(f"{self._name} {how}. The job goes on; further failures are not told.")


def _in_a_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
