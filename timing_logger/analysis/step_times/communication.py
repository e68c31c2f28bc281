"""Place the rows of communication in arrays by step and rank, and make the run a program from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.blocked import Blocked
from timing_logger.analysis.accounting.lines import PROCESS, AccountLines
from timing_logger.analysis.accounting.meetings import joined_rows, met, steps_by_place
from timing_logger.analysis.accounting.part import CommunicationPart
from timing_logger.analysis.accounting.program import Program, calls_of, program_of
from timing_logger.analysis.accounting.run import TiedRows, blocked_in, tied_rows
from timing_logger.analysis.accounting.ties import Ties
from timing_logger.analysis.rows.arrays import dense_codes
from timing_logger.analysis.rows.table_types import Floats, Ints


class Shape(NamedTuple):
    """The shape of arrays by step and rank."""

    steps: int
    ranks: int


class Places(NamedTuple):
    """Where processes and their steps are in arrays by step and rank.

    Attributes:
        ranks: the rank of each column, ascending.
        column: for each process the column of its rank.
        steps: the row of each step of each process, in the order of these.
        n_steps: for each process the number of its steps.
        shape: of the arrays.
    """

    ranks: Ints
    column: Ints
    steps: Ints
    n_steps: Ints
    shape: Shape


class Communication(NamedTuple):
    """The rows of communication of a run, placed in arrays by step and rank.

    Attributes:
        rows: the rows.
        blocked: what lines did while these blocked them.
        step: for each row the position of its step; NaN outside of any step.
        column: for each row the column of its rank.
        ranks: the rank of each column, ascending.
        shape: of arrays by step and rank.
    """

    rows: TiedRows
    blocked: Blocked
    step: Floats
    column: Ints
    ranks: Ints
    shape: Shape


class Played(NamedTuple):
    """A run as a program that can be played again.

    Attributes:
        program: its steps are those of the arrays by step and rank.
        call: for each node a number of what is called.
        column_of_line: for each line the column of its rank.
        ties: the ties of rows of communication to the meetings of the program.
        restarts: whether some rank was started again: its runs are no one program.
    """

    program: Program
    call: Ints
    column_of_line: Ints
    ties: Ties
    restarts: bool


def placed(
    parts: Sequence[CommunicationPart], at: Places, world_size: int | None, *, by_step: bool
) -> tuple[Communication, AccountLines]:
    """Match the rows of communication, and tell what ranks did in them; also return their lines of control.

    Args:
        parts: the communication of all processes; they lose their rows.
        at: where the processes are in arrays by step and rank.
        world_size: the number of ranks in the run; None if unknown.
        by_step: whether collectives without a number are matched step by step.
    """
    rows, lines = joined_rows(parts)
    step = steps_by_place(rows, at.steps, at.n_steps)
    tied = tied_rows(met(rows, lines, step if by_step else np.full(len(step), np.nan), world_size))
    blocked = blocked_in(tied)  # which takes most memory
    column = at.column[rows[PROCESS].to_numpy()]
    return Communication(tied, blocked, step, column, at.ranks, at.shape), lines


def played_of(rows: TiedRows, step: Floats, lines: AccountLines, at: Places) -> Played:
    """Make a program of the rows of communication and their lines, ``step`` being that of each row."""
    program = program_of(rows, lines, step, max(1, at.shape.steps))
    restarts = len(at.column) > len(at.ranks)
    return Played(program, calls_of(program, rows), at.column[lines.process], rows.ties, restarts)


def wall_ms(lines: AccountLines) -> float:
    """Return how long the run lasted on the rank that was there longest, in ms; 0 if unknown."""
    of_rank = dense_codes(lines.rank[lines.is_main])
    return float(np.bincount(of_rank, lines.wall_ms[lines.is_main]).max(initial=0.0))
