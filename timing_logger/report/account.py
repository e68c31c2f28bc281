"""The text report on what each rank did with its time, and for whom it waited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from timing_logger.analysis.accounting.account import PARTS
from timing_logger.report._account_figures import ALL, AccountFigures, percents
from timing_logger.report._limits import MOST_LINES, on_left_out
from timing_logger.report._text_tables import WHOSE, Column, fits, table_text
from timing_logger.words.units import as_tenths, count, fixed, page, paragraph, percent, seconds

_MOST_PAIRS = 10
_MOST_NAMED = 3
_NOT_ALWAYS = "not matched"
_TRANSFERS = "transfers"
_WALL = Column("wall_ms", "wall s", lambda ms: fixed(ms / 1e3, 2))


def account_text(account: pd.DataFrame, width: int, *, everything: bool = True) -> str:
    """Return the report on what ``analysis.account`` returned; "" if no rank has an account.

    Args:
        account: the account.
        width: columns of the terminal.
        everything: whether to show all ranks, instead of those that others waited for most.
    """
    figures = AccountFigures.of(account)
    if figures.ranks.empty:
        return ""
    return page(
        _ranks_table(figures, width, everything),
        *paragraph(width, *on_parts(figures), *([] if everything else on_ranks_left_out(len(figures.ranks)))),
        *_on_whom(figures, width),
    )


# -- by rank ---------------------------------------------------------------------------------------------


def part_columns(figures: AccountFigures) -> list[Column]:
    """Return the columns of the parts, without the one that most runs have nothing in."""
    left_out = {_NOT_ALWAYS} if not figures.ranks[PARTS[_NOT_ALWAYS]].any() else set()
    return [Column(what, what) for what in PARTS if what not in left_out]


def _ranks_table(figures: AccountFigures, width: int, everything: bool) -> str:
    ranks = figures.ranks
    if len(ranks) > MOST_LINES and not everything:
        worst, rest = figures.worst_first().head(MOST_LINES), figures.worst_first().iloc[MOST_LINES:]
        others = figures._replace(ranks=rest).in_all().assign(rank=f"{len(rest):,} others")
        ranks = pd.concat([worst.astype({"rank": object}), others])
    in_all = figures.in_all().assign(rank=ALL).to_dict("records") if len(figures.ranks) > 1 else []
    shown = pd.DataFrame([*ranks.to_dict("records"), *in_all])
    return table_text(shown, [*_whose(figures), _WALL, *part_columns(figures)], width)


def _whose(figures: AccountFigures) -> Sequence[Column]:
    return WHOSE if figures.ranks["incarnation"].nunique() > 1 else WHOSE[:1]


def on_parts(figures: AccountFigures) -> Iterable[str]:
    """Yield sentences that say what the parts of the wall time mean, and what they leave out."""
    yield (
        "Parts of the wall time. not timed: covered by no row. waiting: in communication, before the last "
        "rank that it needs had come. Where that rank waited, too, the one counts for which it waited, so a "
        "wait leads through others to a rank that did something itself."
    )
    yield from on_the_unmatched(figures)
    if figures.other_threads:
        yield (
            f"{count(figures.other_threads, 'thread')} more had an account: blocked in communication, beside "
            "the thread that tells of the rank. They count in no figure here; analysis.account has them."
        )


def on_ranks_left_out(n_ranks: int) -> Iterable[str]:
    """Yield the sentence that says which ranks a table shows that goes by ``AccountFigures.worst_first``."""
    which = "that others waited for longest, and after them those that waited longest themselves"
    return on_left_out(n_ranks, min(n_ranks, MOST_LINES), "ranks", which)


def on_the_unmatched(figures: AccountFigures) -> Iterable[str]:
    """Yield the sentence that explains time in communication that was not matched, if there is any."""
    if figures.ranks[PARTS[_NOT_ALWAYS]].any():
        yield (
            "not matched: in communication of which the rows of other ranks are missing or do not fit, or in "
            "its set-up, such as MPI_INIT. It is not known for whom."
        )


# -- for whom ----------------------------------------------------------------------------------------------


def _on_whom(figures: AccountFigures, width: int) -> Iterable[str]:
    if len(figures.ranks) < 2 or figures.waiting.empty:
        return
    if len(figures.ranks) <= MOST_LINES:
        yield _matrix(figures, width)
    else:
        yield from (table_text(frame, columns, width) for frame, columns in largest_waits(figures))
    yield from paragraph(width, *on_whom(figures))


def _matrix(figures: AccountFigures, width: int) -> str:
    """Draw for whom each rank waited, with a column for each rank, as many as there is room for."""
    whom = figures.by_whom()
    ranks = whom["waited_for"].dropna().tolist()
    for n_named in range(len(ranks), -1, -1):
        frame, columns = waiting_matrix(figures, ranks[:n_named])
        if fits(frame, columns, width):
            break
    return table_text(frame, columns, width)


def waiting_matrix(figures: AccountFigures, named: Sequence[int]) -> tuple[pd.DataFrame, list[Column]]:
    """Return for whom each rank waited, in ms, and the sum over all ranks, as a table and its columns.

    Args:
        figures: the figures of an account.
        named: the ranks waited for that have a column each; the others have one together.
    """
    waiting = figures.waiting.assign(
        head=[
            _TRANSFERS if pd.isna(rank) else f"for {rank}" if rank in named else "others"
            for rank in figures.waiting["waited_for"]
        ]
    )
    crossed = waiting.pivot_table(
        index=["rank", "incarnation"], columns="head", values="ms", aggfunc="sum", fill_value=0.0
    )
    ranks = figures.ranks.set_index(["rank", "incarnation"])
    crossed = crossed.reindex(ranks.index, fill_value=0.0)
    heads = [head for head in (*(f"for {rank}" for rank in named), "others", _TRANSFERS) if head in crossed]
    crossed = crossed[heads].assign(waited_ms=ranks[PARTS["waiting"]]).reset_index()
    in_all = crossed[["waited_ms", *heads]].sum().to_frame().T.assign(rank=ALL, incarnation=None)
    frame = pd.concat([crossed.astype({"rank": object, "incarnation": object}), in_all], ignore_index=True)
    columns = [
        *_whose(figures),
        Column("waited_ms", "waited ms", as_tenths),
        *(Column(head, head, as_tenths) for head in heads),
    ]
    return frame, columns


def largest_waits(figures: AccountFigures) -> list[tuple[pd.DataFrame, list[Column]]]:
    """Return the ranks that were waited for most, and the pairs of ranks with most waiting.

    Each is a table and its columns; its last rows are the sum of the rest, and of all.
    """
    whose = [Column(column.name, column.head, _whole) for column in _whose(figures)]
    whom, waited = Column("waited_for", "waited for", _whole), Column("ms", "waited ms", as_tenths)
    of_all, by = Column("of", "of all waiting"), Column("waiting", "by ranks", _whole)
    return [
        (_with_the_rest(figures.by_whom(), "waited_for"), [whom, waited, of_all, by]),
        (_with_the_rest(figures.waiting, "rank"), [*whose, whom, waited, of_all]),
    ]


def _with_the_rest(frame: pd.DataFrame, first: str) -> pd.DataFrame:
    shown, rest = frame.head(_MOST_PAIRS), frame.iloc[_MOST_PAIRS:]
    shown = shown.assign(waited_for=[_TRANSFERS if pd.isna(rank) else rank for rank in shown["waited_for"]])
    rows = shown.to_dict("records")
    if len(rest):
        rows.append({first: f"{len(rest)} others", "ms": rest["ms"].sum()})
    parts = percents([row["ms"] for row in rows])
    rows = [{**row, "of": part} for row, part in zip(rows, parts, strict=True)]
    found: pd.DataFrame = pd.DataFrame([*rows, {first: ALL, "ms": frame["ms"].sum(), "of": percent(1.0)}])
    return found


def _whole(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.0f}"


def on_whom(figures: AccountFigures) -> Iterable[str]:
    """Yield sentences that say for whom ranks waited most, and what the columns mean."""
    yield from most_waited_for(figures)
    waiting = figures.waiting
    if waiting["waited_for"].isna().any():
        yield f"{_TRANSFERS}: waiting for a transfer between other ranks."
    if (waiting["waited_for"] == waiting["rank"]).fillna(False).any():
        yield "A rank that waits for itself waits for another of its threads."


def most_waited_for(figures: AccountFigures) -> Iterable[str]:
    """Yield the sentence that says how much ranks waited, and for whom most."""
    if len(figures.ranks) < 2 or figures.waiting.empty:
        return
    whom = figures.by_whom()
    named = whom[whom["waited_for"].notna()].head(_MOST_NAMED)
    ms = [*named["ms"], whom["ms"].sum() - named["ms"].sum()]
    *parts, rest = percents(ms)
    told = [f"{part} for rank {rank}" for part, rank in zip(parts, named["waited_for"], strict=True)]
    if len(whom) > len(named):
        others = whom["waited_for"].drop(named.index)
        kinds = {"others": others.notna().any(), "transfers between others": others.isna().any()}
        told.append(f"{rest} for {' and for '.join(kind for kind, is_there in kinds.items() if is_there)}")
    in_all = figures.in_all().iloc[0]
    yield (
        f"The ranks waited {seconds(in_all[PARTS['waiting']])}, {in_all['waiting']} of their time: "
        f"{_listed(told)}."
    )


def _listed(told: Sequence[str]) -> str:
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told)
