"""Where the time went: a bar of each rank's wall time, and for whom ranks waited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from timing_logger.analysis.accounting.account import PARTS
from timing_logger.report._account_figures import VISIBLE, AccountFigures
from timing_logger.report._limits import MOST_BARS
from timing_logger.report._text_tables import Column as TextColumn
from timing_logger.report.account import largest_waits, on_parts, on_whom, waiting_matrix
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._step import StepChart, TimeKinds, step_chart
from timing_logger.report.html._tables import PageColumn, Table, decimals, integer, table, table_of
from timing_logger.results.facts import StepsCounted
from timing_logger.results.verdict import Verdict
from timing_logger.words.units import UNKNOWN, process_name

_MOST_BARS = 6
"""Of many ranks, how many of those that were waited for most have a bar, and of those that waited most."""


_ROUNDS = "No iteration is recorded: the number is that of a round of the collectives that repeat, from 0 on."

_IF_MUCH, _MUCH = ("not timed", "not matched"), 0.1
"""What is told beside a bar only where it is more than this part of it: own work and waiting always are."""


class Segment(NamedTuple):
    """A part of a bar: the class of its colour, what it is, its share of the bar in percent, and its time."""

    kind: str
    name: str
    length: float
    time: str


class AccountBar(NamedTuple):
    """The bar of a rank, or of several: its label, its parts, and what matters of them as text."""

    label: str
    segments: list[Segment]
    value: str


class AccountChart(NamedTuple):
    """The section on where the time went.

    Attributes:
        step: the chart of one step; None if there is none to draw.
        bars: one for each rank and one for all; of many ranks only the remarkable ones, and one for the rest.
        legend: the class and the name of each colour.
        notes: sentences before the bars; ``about_waiting``: after them.
        ranks: the totals of each rank.
        waiting: tables of who waited for whom.
    """

    step: StepChart | None
    bars: list[AccountBar]
    legend: list[tuple[str, str]]
    notes: list[str]
    about_waiting: list[str]
    ranks: Table
    waiting: list[Table]


def account_chart(findings: Findings) -> AccountChart:
    account = findings.summary.account
    figures = AccountFigures.of(account)
    main = account[account["is_main"].astype(bool)]
    kinds = TimeKinds.of(main)
    main = main.assign(kind=kinds.of_rows(main))
    bars = list(account_bars(figures, main, kinds)) if len(figures.ranks) else []
    step = step_chart(findings.shown, kinds) if findings.shown else None
    if step and any(isinstance(fact, StepsCounted) for fact in findings.verdict.evidence):
        step = step._replace(note=f"{step.note} {_ROUNDS}".strip())
    drawn = {segment.kind for bar in bars for segment in bar.segments}
    if step:
        drawn.update(part.kind for lane in step.lanes for part in lane.parts)
    return AccountChart(
        step=step,
        bars=bars,
        legend=[(kind, name) for kind, name in kinds.names.items() if kind in drawn],
        notes=[] if figures.ranks.empty else list(_notes(figures, findings.verdict)),
        about_waiting=list(on_whom(figures)) if len(figures.ranks) > 1 and len(figures.waiting) else [],
        ranks=_ranks_table(findings, figures),
        waiting=list(_waiting_tables(figures)),
    )


# -- bars --------------------------------------------------------------------------------------------------


def account_bars(figures: AccountFigures, main: pd.DataFrame, kinds: TimeKinds) -> Iterator[AccountBar]:
    """Yield the bars of an account.

    Args:
        figures: those of the account.
        main: its rows of main lines, with the class of their colour as ``kind``.
        kinds: these classes.
    """
    process = ["rank", "incarnation"]
    ms = main.pivot_table(index=process, columns="kind", values="ms", aggfunc="sum").fillna(0.0)
    ranks = figures.ranks.set_index(process, drop=False)
    chosen = _chosen(figures)
    for one in chosen:
        yield _bar(process_name(*one), ms.loc[[one]], ranks.loc[[one]], kinds)
    if rest := len(ms) - len(chosen):
        others = figures._replace(ranks=ranks.drop(index=chosen)).in_all()
        yield _bar(f"the other {rest:,}", ms.drop(index=chosen), others, kinds)
    if len(ms) > 1:
        yield _bar("all ranks", ms, figures.in_all(), kinds)


def _notes(figures: AccountFigures, verdict: Verdict) -> Iterator[str]:
    yield from on_parts(figures)
    if verdict.end.state == "hang":
        yield (
            "The calls in which the run hangs have no end: time in them is not timed as long as the rank "
            "still wrote rows, and in no figure here after its last row."
        )
    if len(figures.ranks) > MOST_BARS:
        yield (
            f"Of {len(figures.ranks):,} ranks those have a bar each that were waited for most, and those "
            "that waited most; the others have one together."
        )


def _chosen(figures: AccountFigures) -> list[tuple[int, int]]:
    """Return the ranks that have a bar: all, or those that were waited for most and that waited most."""
    ranks = figures.ranks
    if len(ranks) > MOST_BARS:
        whom = figures.by_whom()["waited_for"].dropna().head(_MOST_BARS)
        most = ranks.sort_values(PARTS["waiting"], ascending=False, kind="stable").head(_MOST_BARS).index
        chosen = ranks.index[ranks["rank"].isin(whom) | ranks.index.isin(most)]
        worst = figures.worst_first()
        ranks = worst[worst.index.isin(chosen)]
    return list(zip(ranks["rank"].tolist(), ranks["incarnation"].tolist(), strict=True))


def _bar(label: str, ms: pd.DataFrame, parts: pd.DataFrame, kinds: TimeKinds) -> AccountBar:
    sums = ms.sum()
    whole = float(sums.sum())
    segments = [
        Segment(kind, name, round(100 * float(sums[kind]) / whole, 3), f"{sums[kind]:.1f} ms")
        for kind, name in kinds.names.items()
        if sums.get(kind, 0.0) > VISIBLE * whole
    ]
    (said,) = parts.to_dict("records")
    unknown = [what for what in _IF_MUCH if said[PARTS[what]] > _MUCH * said["wall_ms"]]
    told = ", ".join(f"{what} {said[what]}" for what in ("own work", "waiting", *unknown))
    return AccountBar(label, segments, told)


# -- tables ------------------------------------------------------------------------------------------------


def _ranks_table(findings: Findings, figures: AccountFigures) -> Table:
    ranks = findings.summary.ranks.merge(figures.ranks, on=["rank", "incarnation"], how="left")
    crowd = findings.crowd
    if crowd.is_many:
        ranks = ranks.iloc[ranks["rank"].map(crowd.place()).argsort(kind="stable")]
    return table_of(
        ranks,
        "Totals of each rank",
        {
            "rank": PageColumn("rank", integer),
            "incarnation": PageColumn("run", integer),
            "rows": PageColumn("rows", integer),
            "iterations": PageColumn("iterations", integer),
            "wall_s": PageColumn("wall s", decimals(2)),
            **{what: PageColumn(what, _or_unknown) for what in PARTS},
        },
        crowd.shown("that others waited for longest, after those that the verdict names", "summary --all"),
    )


def _or_unknown(value: object) -> str:
    return value if isinstance(value, str) else UNKNOWN


def _waiting_tables(figures: AccountFigures) -> Iterator[Table]:
    if len(figures.ranks) < 2 or figures.waiting.empty:
        return
    if len(figures.ranks) <= MOST_BARS:
        whom = figures.by_whom()["waited_for"].dropna().tolist()
        yield _table("Who waited for whom, in ms", *waiting_matrix(figures, whom))
        return
    captions = "Ranks that were waited for most", "Pairs of ranks with most waiting"
    for caption, (frame, columns) in zip(captions, largest_waits(figures), strict=True):
        yield _table(caption, frame, columns)


def _table(caption: str, frame: pd.DataFrame, columns: Sequence[TextColumn]) -> Table:
    cells = [
        [UNKNOWN if pd.isna(value) else column.shown(value) for value in frame[column.name].tolist()]
        for column in columns
    ]
    return table(caption, [column.head for column in columns], [*map(list, zip(*cells, strict=True))])
