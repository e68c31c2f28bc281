"""The parts of a training step that a framework's hooks open and end, in whatever order they come."""

from __future__ import annotations

from timing_logger.record import OK
from timing_logger.recording.device.intervals import HostInterval, Interval, open_interval
from timing_logger.recording.logger import TimingLogger

TRAIN = "train"
VALIDATION = "val"

DATA = "DATA"
FORWARD = "FORWARD"
BACKWARD = "BACKWARD"
FORWARD_BACKWARD = "FORWARD_BACKWARD"
OPTIMIZER = "OPTIMIZER"
TRAIN_STEP = "TRAIN_STEP"
VALIDATION_STEP = "VALIDATION_STEP"
EVALUATE = "EVALUATE"
SAVE = "SAVE"
LOG = "LOG"


class Phases:
    """Open intervals by operation, and what hooks do not know of: the wait before the next of them.

    Nothing here raises. What is ended without having begun leaves no row, and what begins again
    without having ended is forgotten. A row has the iteration that is current when it ends.

    Attributes:
        logger: where rows go; while nothing is being trained one that is off.
    """

    def __init__(self) -> None:
        self._open: dict[str, Interval | None] = {}
        self._wait: HostInterval | None = None
        self.logger = OFF

    def start(self, logger: TimingLogger) -> None:
        """Record into ``logger`` from now on."""
        self.drop_all()
        self.logger = logger

    def stop(self) -> None:
        """Record nothing from now on."""
        self.start(OFF)

    def begin(self, operation: str) -> None:
        """``operation`` begins now, on the device if there is one."""
        self._open[operation] = open_interval() if self.logger.recording else None

    def end(self, operation: str, phase: str = TRAIN, status: str = OK) -> None:
        """``operation`` ends now, and leaves a row."""
        interval = self._open.pop(operation, None)
        if interval is not None:
            interval.end()
            start, end, clock = interval.columns
            self.logger.record_interval(operation, start, end, phase=phase, clock=clock, status=status)

    def drop(self, operation: str) -> None:
        """Where ``operation`` ends cannot be known: no row."""
        self._open.pop(operation, None)

    def drop_all(self) -> None:
        """Forget what is open."""
        self._open.clear()
        self._wait = None

    def end_all(self, status: str) -> None:
        """The training was interrupted: what is open gets a row that says so, a wait gets none."""
        for operation in list(self._open):
            self.end(operation, VALIDATION if operation == VALIDATION_STEP else TRAIN, status)
        self._wait = None

    # -- waits: the host's clock, because they are the host's ----------------------------------------

    def wait(self) -> None:
        """A wait begins now. Of which iteration it is, and what for, says the hook that ends it."""
        self._wait = HostInterval()

    def end_wait(self, operation: str, phase: str = TRAIN) -> None:
        """The wait, if there is one, ends now and was ``operation``."""
        wait, self._wait = self._wait, None
        if wait is not None:
            wait.end()
            self.logger.record_interval(operation, wait.start_ns, wait.end_ns, phase=phase)

    def drop_wait(self) -> None:
        """Something else came between: no row."""
        self._wait = None


OFF = TimingLogger(0, enabled=False)
