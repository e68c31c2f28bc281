"""The parts of a training step, which a framework's hooks begin and end in any order."""

from __future__ import annotations

from timing_logger.recording.device.intervals import HostInterval, Interval, open_interval
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import OK

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


class OpenOperations:
    """The open intervals by operation, and the wait before the next of them, for which there is no hook.

    Nothing here raises. An operation that ends without having begun leaves no row; one that begins again
    without having ended is discarded. A row has the iteration that is current when it ends.

    Attributes:
        logger: the logger that gets the rows; outside of a training, one that is off.
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
        """Begin ``operation`` now, on the device if there is one."""
        self._open[operation] = open_interval() if self.logger.recording else None

    def end(self, operation: str, phase: str = TRAIN, status: str = OK) -> None:
        """End ``operation`` now, and write its row."""
        interval = self._open.pop(operation, None)
        if interval is not None:
            interval.end()
            start, end, clock = interval.columns
            self.logger.record_interval(operation, start, end, phase=phase, clock=clock, status=status)

    def drop(self, operation: str) -> None:
        """Discard ``operation`` without a row, because its end cannot be known."""
        self._open.pop(operation, None)

    def drop_all(self) -> None:
        """Discard all open intervals without a row."""
        self._open.clear()
        self._wait = None

    def end_all(self, status: str) -> None:
        """End all open intervals of an interrupted training with ``status``; an open wait has no row."""
        for operation in list(self._open):
            self.end(operation, VALIDATION if operation == VALIDATION_STEP else TRAIN, status)
        self._wait = None

    # -- waits, which are the host's and are timed by its clock --------------------------------------

    def wait(self) -> None:
        """Begin a wait now. The hook that ends it determines its operation and iteration."""
        self._wait = HostInterval()

    def end_wait(self, operation: str, phase: str = TRAIN) -> None:
        """End the wait now, if there is one, and write it as a row of ``operation``."""
        wait, self._wait = self._wait, None
        if wait is not None:
            wait.end()
            self.logger.record_interval(operation, wait.start_ns, wait.end_ns, phase=phase)

    def drop_wait(self) -> None:
        """Discard the wait without a row, because it contains something else."""
        self._wait = None


OFF = TimingLogger(0, enabled=False)
