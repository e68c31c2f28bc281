"""Play a run again with other times of its lines: how long it would have lasted."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from functools import cached_property
from itertools import islice

import numpy as np

from timing_logger.analysis.accounting.playing import InWaves, OneByOne
from timing_logger.analysis.accounting.program import Program
from timing_logger.analysis.accounting.segments import Segments, segments_of
from timing_logger.analysis.accounting.waves import ENOUGH_NODES, ranked
from timing_logger.analysis.arrays import dense_codes, in_few_bytes
from timing_logger.analysis.table_types import Floats

_SAME_S = 1e-9
"""By how much instants may differ that are the same, as sums of the same times in another order."""

_AT_ONCE = 2**24
"""How many instants are held at once: the nodes of a program, for each time that it is played."""


class Replay:
    """Plays a program again; what is the same each time is prepared once.

    Args:
        program: the program.
        in_segments: whether what does not depend on each other is played at the same time.
    """

    def __init__(self, program: Program, *, in_segments: bool = True) -> None:
        self._program = program
        line, gives, needs, before = program.line, program.gives, program.needs, program.done.before
        self._segments = (
            segments_of(line, program.own_s <= 0, gives, needs, before)
            if in_segments
            else Segments.whole(len(line), before)
        )
        slot = self._segments.of_node.astype(np.int64) * len(program.start_s) + line
        self._slot = in_few_bytes(slot)  # of each line in each segment
        each = in_few_bytes(dense_codes(line, self._segments.of_node))
        of_node, of_meeting = ranked(each, gives, needs, self._segments.before, program.end_s)
        self._ranks = in_few_bytes(of_node), in_few_bytes(of_meeting)
        self._by_step = in_few_bytes(np.argsort(program.step, kind="stable"))
        self._whole: Replay | None = None

    def with_times(self, took_s: Floats, late_s: Floats) -> Replay:
        """Return what plays the same program with other times of its meetings.

        Args:
            took_s: how long each meeting takes.
            late_s: how much later each node is left than it could be.
        """
        other = copy(self)
        done = self._program.done._replace(took_s=took_s)
        other._program = self._program._replace(done=done, late_s=late_s)
        other._whole = None
        return other

    def ends_s(self, own_s: Iterable[Floats]) -> Floats:
        """Return when each step, and all before it, would have ended with other times of the lines.

        Args:
            own_s: for each time that the run is played: how long the line of each node is on its own account
                before it, in seconds.

        Returns:
            In seconds, steps x times.
        """
        at_once = max(1, _AT_ONCE // max(1, len(self._slot)))
        times = iter(own_s)
        parts = []
        while some := list(islice(times, at_once)):
            parts.append(self._played(np.stack(some, axis=1)))
        return np.concatenate(parts, axis=1)

    def _played(self, own_s: Floats) -> Floats:
        program, segments = self._program, self._segments
        player = self._in_waves if self._is_wide(own_s.shape[1]) else self._one_by_one
        begins_s = self._begins_s(own_s.shape[1])
        left_s, done_s = player.played(begins_s, own_s, program.done.took_s, program.late_s)
        met_s = done_s[segments.cuts]
        until_s = met_s[:, None] + program.late_s[segments.waits][..., None]
        if (left_s[segments.waits] > until_s + _SAME_S).any():
            self._whole = self._whole or Replay(program, in_segments=False)
            return self._whole._played(own_s)  # some line came late by itself
        since_s = np.concatenate([np.zeros((1, own_s.shape[1])), np.cumsum(met_s, axis=0)])
        return self._ends_of_steps(left_s + since_s[segments.of_node])

    def _is_wide(self, n_times: int) -> bool:
        """Tell whether waves of nodes are so wide that arrays are faster than numbers one by one."""
        n_waves = int(self._ranks[0].max(initial=0)) + 1
        return len(self._slot) * n_times >= ENOUGH_NODES * n_waves

    @cached_property
    def _in_waves(self) -> InWaves:
        return InWaves(self._program, self._slot, self._segments.before, *self._ranks)

    @cached_property
    def _one_by_one(self) -> OneByOne:
        return OneByOne(self._program, self._slot, self._segments.before, *self._ranks)

    def _begins_s(self, n_times: int) -> Floats:
        """Return when each line begins each segment: the first at its own time, others after all have met.

        Those are relative to that meeting.
        """
        program, waits = self._program, self._segments.waits
        begins_s = np.zeros((len(waits) + 1, len(program.start_s)))
        begins_s[0] = program.start_s
        after = np.arange(1, len(waits) + 1)[:, None]
        begins_s[after, program.line[waits]] = program.late_s[waits]
        return np.repeat(begins_s.reshape(-1, 1), n_times, axis=1)

    def _ends_of_steps(self, left_s: Floats) -> Floats:
        program = self._program
        step = program.step[self._by_step]
        first = np.flatnonzero(np.diff(step, prepend=-1))
        ends_s = np.full((program.n_steps, left_s.shape[1]), -np.inf)
        ends_s[step[first]] = np.maximum.reduceat(left_s[self._by_step], first, axis=0)
        return np.maximum.accumulate(ends_s, axis=0)
