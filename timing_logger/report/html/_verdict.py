"""The verdict section of the page: the verdict in words, with the evidence."""

from __future__ import annotations

import math
from typing import NamedTuple

from timing_logger.reading.named_ranks import listed_ranks
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._tables import (
    PageColumn,
    Shown,
    Table,
    decimals,
    integer,
    table,
    table_of,
    text,
)
from timing_logger.results.verdict import Verdict
from timing_logger.words.evidence import evidence_beside_the_end
from timing_logger.words.units import UNKNOWN, percent
from timing_logger.words.verdict import headline, particulars, side_of_limit, what_next


class VerdictSection(NamedTuple):
    """The content of the verdict section of the page.

    Attributes:
        end: sentences on a run that did not end well, or of which that is not known; empty if it did.
        ended_badly: whether that is known.
        kind: the verdict; ``unjudged`` if no rank could be judged.
        headline: who is slow, and what it costs.
        particulars: when and where the time is lost, and how sure that is; "" if no time is lost.
        next: what to look at next; "" if nothing is slow.
        code: sentences on the code that ran.
        evidence: sentences.
        gates, suspects, windows: tables.
    """

    end: tuple[str, ...]
    ended_badly: bool
    kind: str
    headline: str
    particulars: str
    next: str
    code: list[str]
    evidence: tuple[str, ...]
    gates: Table
    suspects: Table
    windows: Table


def judgement(findings: Findings) -> VerdictSection:
    verdict = findings.verdict
    return VerdictSection(
        end=verdict.end.sentences if verdict.end.warning else (),
        ended_badly=verdict.end.state in ("hang", "failed"),
        kind=verdict.verdict if verdict.judged else "unjudged",
        headline=headline(verdict),
        particulars=particulars(verdict),
        next=what_next(verdict),
        code=findings.code,
        evidence=evidence_beside_the_end(verdict),
        gates=_gates(verdict),
        suspects=suspects_table(findings.verdict, findings.crowd.shown("that cost most", "stragglers --all")),
        windows=_windows(findings),
    )


def _gates(verdict: Verdict) -> Table:
    rows = [
        [gate.name, _figure(gate.value), _figure(gate.bound), side_of_limit(gate)] for gate in verdict.gates
    ]
    return table("Conditions, in the order of judging", ["condition", "value", "limit", "so it is"], rows)


def suspects_table(verdict: Verdict, shown: Shown) -> Table:
    """Return the table of the ranks that are or may be slow.

    Args:
        verdict: the verdict.
        shown: which rows of many are shown.
    """
    rows = [
        [listed_ranks(suspect.ranks), suspect.operation, percent(suspect.share), percent(suspect.likelihood)]
        for suspect in verdict.suspects
    ]
    caption = "Suspects: ranks that are or may be slow; ranks that act as one are one suspect"
    heads = ["ranks", "operation", "of the lost time", "likelihood"]
    return table(caption, heads, rows, shown)


def _figure(value: float) -> str:
    if math.isnan(value):
        return UNKNOWN
    return f"{value:.0f}" if value.is_integer() else f"{value:.2f}"


def _windows(findings: Findings) -> Table:
    return table_of(
        findings.windows,
        "Stretches in which a rank was slower than its peers, including those too short for a verdict",
        {
            "operation": PageColumn("operation", text),
            "rank": PageColumn("rank", integer),
            "labels": PageColumn("role", text),
            "kind": PageColumn("window", text),
            "first_iteration": PageColumn("from", integer),
            "last_iteration": PageColumn("to", integer),
            "iterations": PageColumn("slow steps", integer),
            "ratio": PageColumn("ratio", decimals(2)),
            "score": PageColumn("score", decimals(2)),
            "excess_ms": PageColumn("excess ms", decimals(1)),
        },
        findings.crowd.shown("of the greatest excess", "stragglers --all"),
    )
