"""The picture of an account, docs/account.svg: what it shows of a run is what the analyses say of it."""

from __future__ import annotations

import runpy
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from places import ROOT
from simulated_runs import _row, _table

from timing_logger.analysis import account
from timing_logger.analysis.step_times.step_times import step_times
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.pricing import Slowed, pricing_of
from timing_logger.results.policy import STANDARD

picture = SimpleNamespace(**runpy.run_path(str(ROOT / "website" / "account_picture.py")))


def table(parts: Any) -> Any:
    """Return the rows of a drawn run: waits and transfers that follow each other are one all-reduce."""
    rows: list[dict[str, Any]] = []
    for rank, its in enumerate(parts):
        step, begin, nth = 0, None, 0
        for part in its:
            if part.what in ("DATA", "BACKWARD"):
                rows.append(_one(part.what, step, part.begin_ms, part.end_ms, rank))
            elif part.what == "waiting":
                begin = part.begin_ms if begin is None else begin
            elif part.what == "transfer":
                begin = part.begin_ms if begin is None else begin
                pair = next(pair for pair in picture.PAIRS[nth] if rank in pair)
                named = {"group": "ranks {},{}".format(*pair), "group_size": 2, "seq": step}
                rows.append(
                    _one("ALLREDUCE", step, begin, part.end_ms, rank, **named, message_size_bytes=10**6)
                )
                begin, nth = None, 1 - nth
                step += nth == 0
    return _table(rows, None)


def _one(
    operation: str, step: int, begin_ms: float, end_ms: float, rank: int, **fields: Any
) -> dict[str, Any]:
    return _row(operation, step, np.array([begin_ms]), np.array([end_ms - begin_ms]), [rank], **fields)


@pytest.mark.parametrize("which", [0, 1])
def test_the_account_of_the_run_is_what_is_drawn(which: int) -> None:
    parts = picture.played_again()[which]
    drawn: Counter[Any] = Counter()
    for rank, its in enumerate(parts):
        for part in its:
            own = part.what in ("DATA", "BACKWARD")
            key = part.what if own else part.rank if part.what == "waiting" else ""
            drawn[rank, "own work" if own else part.what, key] += part.end_ms - part.begin_ms
    found: Counter[Any] = Counter()
    accounted = account(table(parts))
    whom = accounted["waited_for"].fillna(picture.TRANSFER_OF_OTHERS)
    for row in accounted[accounted["ms"] > 1e-6].assign(waited_for=whom).itertuples():
        key = {"own work": row.operation, "waiting": row.waited_for}.get(row.what, "")
        found[row.rank, row.what, key] += row.ms
    assert found == pytest.approx(drawn)


def test_what_the_slow_rank_costs_is_what_is_drawn() -> None:
    recorded, again = picture.played_again()
    times = step_times(table(recorded))
    pricing = pricing_of(Case(times, dict.fromkeys(times.ranks, ""), STANDARD))
    assert pricing.plays_again
    saved_ms = pricing.price_of_all_ms(picture.SLOW)
    assert saved_ms == pytest.approx(recorded[0][-1].end_ms - again[0][-1].end_ms) == 64
    assert pricing.harm_ms([Slowed(picture.SLOW, np.arange(picture.STEPS))])[0] > 0
    assert times.share_of_run(saved_ms) == pytest.approx(64 / 232)


def test_make_picture_draws_what_the_page_shows() -> None:
    assert (ROOT / "docs" / "account.svg").read_text(encoding="utf-8") == picture.drawn()
