"""The text report on what a run would have taken with something repaired."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from timing_logger.report._text_tables import Column, table_text
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.what_if import Fix, WhatIf
from timing_logger.schema.record import escape_text
from timing_logger.words.not_told import reason
from timing_logger.words.units import as_tenths, as_word, fixed, page, paragraph, percent, seconds, size

_BEST = (
    Column("fix", "repair", as_word), Column("gain_ms", "gain s", lambda ms: fixed(ms / 1e3, 2)),
    Column("share", "% of run", percent), Column("between", "made again, s"),
    Column("of_all", "of all", percent),
)  # fmt: skip

_TRANSFERS = (
    Column("operation", "transfer", as_word), Column("ranks", "ranks"), Column("hosts", "hosts"),
    Column("count", "transfers"), Column("least_bytes", "from", size), Column("most_bytes", "to", size),
    Column("latency_us", "latency us", as_tenths), Column("gb_per_s", "GB/s", lambda value: fixed(value, 3)),
    Column("error", "off by", percent),
)  # fmt: skip


def what_if_text(answer: WhatIf | None, best: pd.DataFrame, transfers: pd.DataFrame, width: int) -> str:
    """Return the report on what ``analysis.what_if``, ``repairs`` and ``transfer_costs`` returned.

    Args:
        answer: None if no repair was asked for.
        best, transfers: the tables.
        width: columns of the terminal.
    """
    asked = [] if answer is None else [*paragraph(width, answer_sentence(answer))]
    return page(*asked, *_best(best, width), *_transfers(transfers, width))


def answer_sentence(answer: WhatIf) -> str:
    """Return what a run would have taken, in words."""
    why = answer.why_unjudged
    repaired = " and ".join(escape_text(text) for text in map(_in_words, answer.fixes))
    sentences = [
        f"With {repaired}, this run of {seconds(answer.run_ms)} would have taken {_length(answer)}.",
        _made_again(answer),
        "" if answer.plays_again else _BY_STEPS,
        f"Nobody could be judged in it: {escape_text(reason(why))}." if why else "",
        _who_then(answer),
    ]
    return " ".join(filter(None, sentences))


_BY_STEPS = (
    "This is by steps, each as long as its slowest rank works: the rows do not show in all of the run who "
    "waits for whom."
)


_NOTHING = 0.005


def _length(answer: WhatIf) -> str:
    if abs(answer.gain_share) < _NOTHING:
        return f"as long, within {_NOTHING:.1%}"
    less, after_ms = "less" if answer.gain_ms > 0 else "more", max(0.0, answer.run_ms - answer.gain_ms)
    by = f"{seconds(abs(answer.gain_ms))} {less}, {abs(answer.gain_share):.1%} of it"
    return f"{seconds(after_ms)}: {by}"


def _made_again(answer: WhatIf) -> str:
    if answer.assumed_gain_ms is not None:
        return _made_again_as_assumed(answer, *answer.assumed_gain_ms)
    off_ms = (answer.gain_high_ms - answer.gain_low_ms) / 2
    again = f"Made again like this, it would take that within {seconds(off_ms)}, with 95% confidence."
    return again if off_ms else ""


def _made_again_as_assumed(answer: WhatIf, least_ms: float, most_ms: float) -> str:
    ends_ms = (max(0.0, answer.run_ms - gain_ms) for gain_ms in (answer.gain_high_ms, answer.gain_low_ms))
    return (
        "No rank had now more and now less to do, so that the run does not tell how its times grow with the "
        "work; here they are taken to grow as from the ranks with less to those with more. It is "
        f"{_gained(least_ms)} if the ranks with more are only slow, and at most {_gained(most_ms)} if the "
        "others take no longer with the work that they take over. Made again like this, it would take "
        f"{' to '.join(map(seconds, ends_ms))}, with 95% confidence, whichever of these is so."
    )


def _gained(ms: float) -> str:
    return f"{seconds(abs(ms))} {'less' if ms >= 0 else 'more'}"


def _who_then(answer: WhatIf) -> str:
    if answer.slowest is None:
        return "" if answer.why_unjudged else "No rank would cost it 1% then."
    then = answer.slowest
    where = f", most in {_operation(then.operation)}" if then.operation else ""
    return f"Rank {then.rank} would cost most then: {seconds(then.cost_ms)}{where}."


def _in_words(fix: Fix) -> str:
    is_operation = fix.kind in ("operation", "without")
    return _WORDS[fix.kind].format(_operation(fix.value) if is_operation else fix.value)


def _operation(name: str) -> str:
    return "code that is not timed" if name == UNLOGGED else name


_WORDS = {
    "rank": "rank {} like its peers",
    "host": "all ranks of {} like their peers",
    "operation": "{} as usual on all ranks",
    "without": "no time in {}",
    "cause": "nothing lost to {}",
    "transfers": "all transfers as usual",
    "work": "work shared evenly",
    "bytes": "{} of the bytes in each transfer",
    "bucket": "collectives in messages of {}",
    "group": "collectives among {} ranks",
}


def _best(best: pd.DataFrame, width: int) -> Iterator[str]:
    if best.empty:
        yield from paragraph(width, "No single repair would make this run shorter by 1%.")
        return
    between = [
        f"{fixed(low / 1e3, 2)} to {fixed(high / 1e3, 2)}"
        for low, high in zip(best["gain_low_ms"], best["gain_high_ms"], strict=True)
    ]
    yield table_text(best.assign(between=between), _BEST, width)
    yield from paragraph(
        width,
        "The best single repairs: what the run would gain, and between what a run made again would, with 95% "
        "confidence. Of all: of what would be gained if all ranks always took what is "
        "usual among their peers, and transfers, too. Repairs may have parts in common.",
        *([_ON_WORK] if "work=even" in set(best["fix"]) else []),
    )


_ON_WORK = (
    "Where no rank has now more and now less to do, the run does not tell how its times grow with the work: "
    "then the interval of work=even spans all that may be so, which --fix work=even tells."
)


def _transfers(transfers: pd.DataFrame, width: int) -> Iterator[str]:
    if len(transfers):
        shown = transfers.assign(gb_per_s=transfers["gb_per_s"].replace(math.inf, math.nan))
        yield table_text(shown, _TRANSFERS, width)
        yield from paragraph(
            width,
            "What transfers take: a latency, and their bytes by a bandwidth, fitted between the sizes that "
            "were measured. Only there --fix bytes=, bucket= and group= say something.",
        )
