"""How ranks ended, told from last words and rows that are made by hand."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from timing_logger.analysis.hangs.diagnosis import fates_of
from timing_logger.analysis.hangs.open_calls import Ending
from timing_logger.analysis.hangs.sidecar_state import LastWords
from timing_logger.results.run_end import Fate, How, by_signals

INTERRUPT = "error:KeyboardInterrupt"


def fates(
    *ranks: dict[str, Any],
    seen_s: dict[int, float] | None = None,
    rows: tuple[tuple[int, float, str], ...] = (),
) -> tuple[Fate, ...]:
    """Return the fates of ranks with these last words; rows are a rank, an end and a status."""
    words = {rank: LastWords(**{"rank": rank, "incarnation": 1, **one}) for rank, one in enumerate(ranks)}
    table = pd.DataFrame(list(rows), columns=["rank", "ended_s", "status"])
    return fates_of(Ending(table, words, {0: 1.0, 1: 2.0, 2: 3.0} if seen_s is None else seen_s, 3.0))


@pytest.mark.parametrize(
    ("words", "status", "how", "what"),
    [
        ({"closed": True}, "ok", "closed", ""),
        ({"closed": True}, None, "closed", ""),
        ({"closed": True}, "error:InvalidValue", "closed", ""),
        ({"closed": True}, "error:RuntimeError", "failed", "RuntimeError"),
        ({"closed": True, "ended_by": "ValueError"}, "error:RuntimeError", "failed", "ValueError"),
        ({"closed": True}, INTERRUPT, "interrupted", ""),
        ({"closed": True, "signal": "SIGTERM"}, INTERRUPT, "interrupted", ""),
        ({"ended_by": "my.KeyboardInterruptError", "killed": True}, None, "interrupted", ""),
        ({"signal": "SIGTERM", "killed": True}, None, "signal", "SIGTERM"),
        ({"signal": "SIGTERM", "closed": True, "ended_by": "ValueError"}, None, "signal", "SIGTERM"),
        ({"killed": True, "ended_by": "ValueError"}, INTERRUPT, "killed", ""),
    ],
)
def test_a_fate_is_told_by_the_surest_sign(
    words: dict[str, Any], status: str | None, how: How, what: str
) -> None:
    rows = ((0, 1.0, status),) if status else ()
    assert fates(words, rows=rows) == (Fate(how, what, (0,)),)


@pytest.mark.parametrize("closed", [False, None])
def test_of_a_rank_that_did_not_close_and_was_not_killed_no_fate_is_known(closed: bool | None) -> None:
    assert fates({"closed": closed, "ended_by": "ValueError"}, rows=((0, 1.0, INTERRUPT),)) == ()


def test_the_row_that_ended_last_tells() -> None:
    rows = ((0, 5.0, "error:E"), (0, 4.0, "ok"), (0, math.nan, "ok"), (1, 6.0, "ok"))
    assert fates({"closed": True}, rows=rows) == (Fate("failed", "E", (0,)),)


def test_the_first_to_end_comes_first_and_who_was_never_seen_last() -> None:
    closed, killed, failed = {"closed": True}, {"killed": True}, {"closed": True, "ended_by": "E"}
    assert fates(closed, killed, failed, seen_s={1: 1.0, 2: 0.5}) == (
        Fate("failed", "E", (2,)), Fate("killed", "", (1,)), Fate("closed", "", (0,)),
    )  # fmt: skip


def test_ranks_of_one_fate_are_told_together_in_their_order() -> None:
    same = {"closed": True, "ended_by": "E"}
    other = {"closed": True, "ended_by": "F"}
    assert fates(same, other, same, seen_s={0: 3.0, 1: 2.0, 2: 1.0}) == (
        Fate("failed", "E", (0, 2)),
        Fate("failed", "F", (1,)),
    )


@pytest.mark.parametrize(
    ("how", "told"),
    [("interrupted", True), ("signal", True), ("killed", False), ("failed", False), ("closed", False)],
)
def test_signals_that_a_rank_could_handle_are_an_interrupt_and_a_caught_one(how: How, told: bool) -> None:
    assert by_signals([Fate("closed", "", (1,)), Fate(how, "", (0,))]) is told
