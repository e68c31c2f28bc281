"""What processes did stretch by stretch: their account before it is summed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.axis import OneAxis
from timing_logger.analysis.accounting.blocked import NO_RANK, Blocked, Rest
from timing_logger.analysis.accounting.lines import LINE, AccountLines
from timing_logger.analysis.rows.arrays import coded_text, in_few_bytes, numbers
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.table_types import Bools, Floats, Frame, Ints

OWN, NOT_TIMED, BLOCKED = range(3)
WHAT = ["own work", "not timed", "transfer", "waiting", "not matched"]
"""What a line did: first what it did while it was not blocked, then, from ``BLOCKED`` on, by the codes of
``Blocked.what``."""


class LineStretches(NamedTuple):
    """Stretches of time of the lines that tell what their processes did.

    Attributes:
        rank, incarnation: of the process.
        start_s, end_s: on the clock of the process, in seconds.
        what: the position in ``WHAT`` of what it did.
        operation: the position in ``operations`` of what it worked at, waited or transferred in; -1 where no
            row covers the time.
        waited_for: the rank for which it waited; ``NO_RANK`` where it waited for none.
        operations: names.
    """

    rank: Ints
    incarnation: Ints
    start_s: Floats
    end_s: Floats
    what: Ints
    operation: Ints
    waited_for: Ints
    operations: list[str]

    def only(self, wanted: Bools | Ints) -> LineStretches:
        """Return the stretches that are ``wanted``, by a mask or by their positions."""
        return self._replace(**{name: getattr(self, name)[wanted] for name in _ARRAYS})

    @classmethod
    def none(cls) -> LineStretches:
        """Return no stretch."""
        none, nothing = np.zeros(0, np.int64), np.zeros(0)
        return cls(none, none, nothing, nothing, none, none, none, [])

    @classmethod
    def joined(cls, several: Sequence[LineStretches]) -> LineStretches:
        """Put stretches one after the other."""
        names = list(dict.fromkeys(name for one in several for name in one.operations))
        code_of = {name: code for code, name in enumerate(names)}
        moved = [
            one._replace(operation=np.array([*map(code_of.get, one.operations), -1])[one.operation])
            for one in several
        ]
        columns = {name: np.concatenate([getattr(one, name) for one in moved]) for name in _ARRAYS}
        return cls.none()._replace(operations=names, **columns)


_ARRAYS = tuple(name for name in LineStretches._fields if name != "operations")


class BlockedStretches(NamedTuple):
    """The stretches in which processes were blocked in communication.

    Attributes:
        stretches: what they did in them.
        ahead_s: by how much the common time axis is ahead of the clock of the process, in seconds.
        axis: which of several axes that is, where some clocks could not be compared with others.
    """

    stretches: LineStretches
    ahead_s: Floats
    axis: Ints


def own_stretches(frame: Frame, lines: AccountLines, rest: Rest) -> LineStretches:
    """Return the stretches in which processes were not blocked: their own work, and what no row covers.

    Args:
        frame: the rows of whole processes.
        lines, rest: as ``lines_of`` and ``rest_of`` returned them.
    """
    rest = Rest._make(values[lines.is_main[rest.line]] for values in rest)
    code, names = coded_text(frame, "operation")
    operation = np.full(len(rest.row), -1)
    operation[rest.is_timed] = code[rest.row[rest.is_timed]]
    return LineStretches(
        *_whose(lines, rest.line), rest.start_s, rest.end_s,
        what=np.where(rest.is_timed, OWN, NOT_TIMED).astype(np.int8),
        operation=in_few_bytes(operation), waited_for=np.full(len(rest.row), NO_RANK, np.int8),
        operations=names,
    )  # fmt: skip


def blocked_stretches(lines: AccountLines, axis: OneAxis, blocked: Blocked) -> BlockedStretches:
    """Return the stretches in which processes were blocked.

    Args:
        lines: the lines of all processes.
        axis: the rows of communication, as ``tied_rows`` returned them.
        blocked: what lines did in these.
    """
    line = axis.frame[LINE].to_numpy()[blocked.row]
    told = lines.is_main[line]
    line, row = line[told], blocked.row[told]
    ahead_s = (instants(axis.frame)[0] - numbers(axis.frame, "start_counter"))[row]
    code, names = coded_text(axis.frame, "operation")
    found = LineStretches(
        *_whose(lines, line), blocked.start_s[told] - ahead_s, blocked.end_s[told] - ahead_s,
        what=(blocked.what[told] + BLOCKED).astype(np.int8), operation=in_few_bytes(code)[row],
        waited_for=blocked.rank[told], operations=names,
    )  # fmt: skip
    return BlockedStretches(found, ahead_s, in_few_bytes(axis.clocks)[row])


def _whose(lines: AccountLines, line: Ints) -> tuple[Ints, Ints]:
    return in_few_bytes(lines.rank)[line], in_few_bytes(lines.incarnation)[line]
