"""The text report on stragglers: the verdict in a sentence, the evidence, and the windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from timing_logger.reading.named_ranks import listed_ranks
from timing_logger.report._limits import MOST_LINES, on_left_out
from timing_logger.report._text_tables import Column, table_text
from timing_logger.report.pictured_step import step_text
from timing_logger.results.plain import ShownStep
from timing_logger.results.policy import Number, Policy
from timing_logger.results.verdict import Verdict
from timing_logger.words.cause import what_was_sought
from timing_logger.words.evidence import evidence_beside_the_end
from timing_logger.words.units import as_hundredths, as_tenths, as_word, page, paragraph, percent, wrapped
from timing_logger.words.verdict import side_of_limit, verdict_sentence, what_next

_WINDOWS = (
    Column("rank", "rank"), Column("operation", "operation", as_word), Column("labels", "role", as_word),
    Column("kind", "window"), Column("first_epoch", "first epoch"), Column("first_iteration", "first"),
    Column("last_epoch", "last epoch"), Column("last_iteration", "last"),
    Column("iterations", "slow steps"), Column("ratio", "ratio", as_hundredths),
    Column("score", "score", as_hundredths), Column("excess_ms", "excess ms", as_tenths),
)  # fmt: skip

_GATES = (
    Column("name", "condition"), Column("value", "value", as_hundredths),
    Column("bound", "limit", as_hundredths), Column("side", "so it is", as_word),
)  # fmt: skip

_SUSPECTS = (
    Column("ranks", "suspect"), Column("operation", "operation", as_word),
    Column("share", "of the lost time", percent), Column("likelihood", "likelihood", percent),
)  # fmt: skip

_GREATEST = "of the greatest excess"
_EXCESS = "excess: what a rank took in its slow steps beyond the median of its peers."
_DELAY = (
    "delay: what a rank took beyond its peers; its cost is less where delays overlap, or nobody waited for "
    "it."
)


def stragglers_text(
    verdict: Verdict,
    windows: pd.DataFrame,
    width: int,
    *,
    step: ShownStep | None = None,
    code: Iterable[str] = (),
    why: bool = False,
    everything: bool = False,
) -> str:
    """Return the verdict in words, a typical slow step, the evidence, and when ranks were slower than others.

    Args:
        windows: the windows of the analysis, those of the greatest excess first.
        width: columns of the terminal.
        step: a typical step; None if there is none to draw.
        code: sentences on the code that the named ranks ran.
        why: whether to add the conditions that decided, and the numbers of the policy.
        everything: whether to show all suspects and windows, however many.
    """
    most = None if everything else MOST_LINES
    shown = windows[:most]
    return page(
        *(paragraph(width, verdict.end.warning) if verdict.end.warning else ()),
        *paragraph(width, verdict_sentence(verdict), *filter(None, [what_next(verdict), *code])),
        step_text(step, width) if step else "",
        *paragraph(width, *evidence_beside_the_end(verdict)),
        *_suspects_text(verdict, width, most),
        table_text(shown, _WINDOWS, width) if len(windows) else "",
        *paragraph(width, *on_left_out(len(windows), len(shown), "windows", _GREATEST)),
        *(paragraph(width, _EXCESS) if len(windows) else ()),
        _gates_text(verdict, width, why),
        *(paragraph(width, what_was_sought(verdict.sought)) if why else ()),
        *(_policy_text(verdict.policy, width) if why else ()),
    )


def _gates_text(verdict: Verdict, width: int, why: bool) -> str:
    if not verdict.gates:
        return ""
    if not why:
        return "--why shows the conditions that decided this."
    rows = [{**gate._asdict(), "side": side_of_limit(gate)} for gate in verdict.gates]
    table = table_text(pd.DataFrame(rows), _GATES, width)
    return "\n\n".join([table, *(paragraph(width, _DELAY) if verdict.cost_ms else ())])


def _policy_text(policy: Policy, width: int) -> Iterator[str]:
    """Yield the numbers of the policy with their reasons, a paragraph for each thing that they are about."""
    yield wrapped(
        "The numbers that decide (timing_logger.analysis.Policy), * where not the standard one:", width
    )
    for about, numbers in policy.numbers().items():
        lines = [wrapped(_number_text(number), width) for number in numbers]
        yield "\n".join([f"-- {about} --", *lines])


def _number_text(number: Number) -> str:
    standard = f" (standard {number.standard:.4g})" if number.differs else ""
    return f"{'* ' * number.differs}{number.name} {number.value:.4g}{standard}: {number.reason}"


def _suspects_text(verdict: Verdict, width: int, most: int | None) -> Iterator[str]:
    if not verdict.suspects:
        return
    shown = verdict.suspects[:most]
    rows = [{**suspect._asdict(), "ranks": listed_ranks(suspect.ranks)} for suspect in shown]
    yield table_text(pd.DataFrame(rows), _SUSPECTS, width)
    yield from paragraph(
        width, *on_left_out(len(verdict.suspects), len(shown), "suspects", "that come first")
    )
