"""What records have in common: the iteration, the epoch, the label and the thread they are of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import ClassVar

from timing_logger.recording.cores.channel import Channel
from timing_logger.recording.cores.core import Core
from timing_logger.recording.cores.protocols import ignore, no_span
from timing_logger.recording.cores.python.core import Caller
from timing_logger.recording.open_calls import Callers, OpenCalls
from timing_logger.recording.sampling import StepPolicy

_NO_LABEL = "", "", False
"""Names of layer and phase, and whether it names a layer: it may be for the phase alone."""


class Context:
    """Where the program stands, as its records state it, and whether they are recorded there.

    Attributes:
        recording: whether the current iteration is recorded.
    """

    recording: bool
    _core: ClassVar[Core]

    def __init__(self, policy: StepPolicy, channel: Channel) -> None:
        self.recording = False
        self._enabled = False
        self._policy = policy
        self._selective = policy.selective
        self._iteration: int | None = None
        self._epoch: int | None = None
        self._work: float | None = None
        self._has_labels = False
        self._channel = channel
        self._label = ContextVar("label", default=_NO_LABEL)
        self._open_calls = OpenCalls(channel, self._core)
        self._callers = Callers(self._open_calls)

    def _switch_on(self) -> None:
        self._enabled = self.recording = True
        self._note_state()

    def _switch_off(self) -> None:
        """Replace the recording methods by ones that do nothing, which saves a check in every call."""
        vars(self).update(
            record_mpi_operation=no_span, record_device_operation=no_span,
            record_timing=ignore, record_interval=ignore,
        )  # fmt: skip

    def recording_in_c(self) -> object:
        """Return a capsule by which code in C records, see ``csrc/recording.h``.

        None over the Python core.
        """

    def _note_state(self) -> None:
        """Tell code in C what is in force now: there is none over the Python core."""

    @property
    def _caller(self) -> Caller:
        """What the calling thread's records have in common."""
        return self._callers.current

    @property
    def enabled(self) -> bool:
        """Whether this rank records at all, on some iterations at least."""
        return self._enabled

    @property
    def has_iteration(self) -> bool:
        """Whether the program has set an iteration so far."""
        return self._iteration is not None

    @property
    def labelled(self) -> bool:
        """Whether a label that names a layer is in force in this context, see :meth:`label`."""
        return self._label.get()[2]

    @contextlib.contextmanager
    def label(self, layer_name: str, phase: str = "") -> Iterator[None]:
        """Set the default layer name and phase of records made in the ``with`` block.

        The label holds for this thread, and under asyncio for this task and those that it creates in the
        block.
        """
        names = type(layer_name) is not str or layer_name != ""
        outer = self._label.get()
        if not self._has_labels:
            self._has_labels = True
            self._note_state()
        self._label.set((layer_name, phase, names))
        try:
            yield
        finally:
            self._label.set(outer)

    def set_current_iteration(self, iteration: int) -> None:
        """Set the iteration of records that state none; it decides whether they are recorded."""
        self._iteration = iteration
        self.recording = self._enabled and self._policy.records(iteration)
        self._note_state()

    def set_current_epoch(self, epoch: int) -> None:
        """Set the epoch of records that state none."""
        self._epoch = epoch
        self._note_state()

    def set_current_work(self, work: float | None) -> None:
        """Set the work of records that state none, until it is set again: how much the step has to do.

        Verdicts then tell a rank that is slow for its work from one that has more to do.

        Args:
            work: the tokens, samples or elements of this rank in the current step, in one unit on all ranks,
                a finite number of at least 0; None if unknown from now on.
        """
        self._work = work
        self._note_state()
