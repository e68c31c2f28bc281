"""Which code of the program ran, in sentences: as stack samples show it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

from timing_logger.reading.named_ranks import named_ranks
from timing_logger.report._account_figures import AccountFigures
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.verdict import Verdict
from timing_logger.schema.record import escape_text
from timing_logger.words.units import count

FEWEST_SAMPLES = 10
"""Of fewer nothing is told: shares would be off by more than 15 of 100."""

_LARGE = 0.25
"""The part of a rank's time in no row from which on it is told which code that was."""

_MOST_FUNCTIONS, _LEAST_SHARE = 2, 0.1
_MOST_RANKS = 3


def ranks_to_ask_about(verdict: Verdict) -> list[int]:
    """Return the ranks whose code a report on a verdict tells of."""
    return list(verdict.ranks_to_look_at[:_MOST_RANKS]) if verdict.operation else []


def code_of_verdict(verdict: Verdict, code: pd.DataFrame) -> Iterator[str]:
    """Yield which code the named ranks ran in the operation in which the time is lost.

    Args:
        verdict: the verdict.
        code: what ``sampled_code`` returns, of these ranks at least.
    """
    operation = "" if verdict.operation == UNLOGGED else verdict.operation
    where = f"in {escape_text(operation)}" if operation else "in no row"
    for ranks, its in _alike(ranks_to_ask_about(verdict), operation, code):
        n = int(its["samples"].sum())
        yield f"Of {count(n, 'stack sample')} of {named_ranks(ranks)} {where}, {_told(its, n)}."


def ranks_out_of_rows(account: pd.DataFrame) -> dict[int, float]:
    """Return the ranks that spent most of their time in no row, if that is much, and what part it is.

    Args:
        account: what ``analysis.account`` returns.
    """
    ranks = AccountFigures.of(account).ranks
    share = (ranks["not_timed_ms"] / ranks["wall_ms"]).groupby(ranks["rank"]).max()
    most = share[share >= _LARGE].sort_values(ascending=False, kind="stable")[:_MOST_RANKS]
    return dict(zip(most.index.tolist(), most.tolist(), strict=True))


def code_out_of_rows(shares: Mapping[int, float], code: pd.DataFrame) -> Iterator[str]:
    """Yield which code ranks ran while no row told of it.

    Args:
        shares: as ``ranks_out_of_rows`` returns.
        code: what ``sampled_code`` returns, of these ranks at least.
    """
    for ranks, its in _alike(shares, "", code):
        n, percents = int(its["samples"].sum()), [round(100 * shares[rank]) for rank in ranks]
        least, most = min(percents), max(percents)
        part = f"{most}%" if least == most else f"{least} to {most}%"
        whose = f"the time of {named_ranks(ranks)}"
        yield f"{part} of {whose} is in no row: of {count(n, 'stack sample')} there, {_told(its, n)}."


def code_sentences(verdict: Verdict, shares: Mapping[int, float], code: pd.DataFrame) -> list[str]:
    """Return both: of ranks whose time in no row is what the verdict tells of, only the former."""
    named = ranks_to_ask_about(verdict) if verdict.operation == UNLOGGED else []
    others = {rank: share for rank, share in shares.items() if rank not in named}
    return [*code_of_verdict(verdict, code), *code_out_of_rows(others, code)]


def _alike(
    ranks: Iterable[int], operation: str, code: pd.DataFrame
) -> Iterator[tuple[list[int], pd.DataFrame]]:
    """Yield the ranks that have enough samples, those together that were mostly in the same function.

    Beside them is a table of their functions: the samples of all of them, most first.
    """
    groups: dict[tuple[str, str], list[pd.DataFrame]] = {}
    for rank in ranks:
        its = code[(code["rank"] == rank) & (code["operation"] == operation)]
        if its["samples"].sum() >= FEWEST_SAMPLES:
            its = its.sort_values("samples", ascending=False, kind="stable")
            groups.setdefault((its["function"].iloc[0], its["file"].iloc[0]), []).append(its)
    for several in groups.values():
        joined = pd.concat(several).sort_values("samples", ascending=False, kind="stable")
        by_code = joined.groupby(["function", "file"], sort=False, as_index=False)
        table = by_code.agg(
            line=("line", "first"), library_call=("library_call", "first"), samples=("samples", "sum")
        )
        yield sorted(joined["rank"].unique().tolist()), table


def _told(code: pd.DataFrame, n: int) -> str:
    most = code.sort_values("samples", ascending=False, kind="stable").head(_MOST_FUNCTIONS)
    seen = most[most["samples"] >= _LEAST_SHARE * n].to_dict("records")
    return " and ".join(map(partial(_one, n=n), seen)) or "no function has a tenth"


def _one(code: Mapping[Hashable, Any], n: int) -> str:
    function, file, call = (escape_text(code[name]) for name in ("function", "file", "library_call"))
    calling = f", calling {call}" if call else ""
    part = "all" if code["samples"] == n else f"{code['samples'] / n:.0%}"
    return f"{part} are in {function} ({file}:{code['line']}){calling}"
