"""The verdict section of the page: the verdict in words, with the evidence."""

from __future__ import annotations

import math
from typing import NamedTuple

from timing_logger.analysis import Gate, Verdict
from timing_logger.analysis.named_ranks import MOST_NAMED, capital, listed_ranks
from timing_logger.analysis.stragglers.step_times import UNLOGGED
from timing_logger.record import escape_text
from timing_logger.report._wording import UNKNOWN, percent
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._tables import Column, Table, decimals, integer, table, table_of, text
from timing_logger.report.verdict_text import (
    evidence_beside_the_end,
    saved,
    what_communication_does,
    who_is_suspected,
)


class Judgement(NamedTuple):
    """The content of the verdict section of the page.

    Attributes:
        end: sentences on a run that did not end well; empty if it did.
        kind: the verdict; ``unjudged`` if no rank could be judged.
        headline: one sentence.
        summary: the phase, the iterations and the cost; "" if no rank is slow.
        evidence: sentences.
        gates, suspects, windows: tables.
    """

    end: tuple[str, ...]
    kind: str
    headline: str
    summary: str
    evidence: tuple[str, ...]
    gates: Table
    suspects: Table
    windows: Table


def judgement(findings: Findings) -> Judgement:
    verdict = findings.verdict
    return Judgement(
        end=verdict.end.sentences if verdict.end.warning else (),
        kind=verdict.verdict if verdict.judged else "unjudged",
        headline=_headline(verdict),
        summary=_summary(verdict),
        evidence=evidence_beside_the_end(verdict),
        gates=_gates(verdict),
        suspects=_suspects(verdict),
        windows=_windows(findings),
    )


def _headline(verdict: Verdict) -> str:
    if not verdict.judged:
        return f"Nobody could be judged: {escape_text(verdict.why)}."
    if verdict.verdict == "suspect":
        return f"Probably {who_is_suspected(verdict)}."
    if verdict.verdict == "rank":
        return f"{_ranks(verdict)} {'is' if len(verdict.ranks) == 1 else 'are'} slow."
    if verdict.verdict == "role":
        role = f"The role {escape_text(verdict.labels)}" if verdict.labels else "One role"
        return f"{role} is slower than the others: {_ranks(verdict).lower()}."
    return {
        "group-wide": "All ranks slowed down together.",
        "communication": _sentence(what_communication_does(verdict)),
        "diffuse": "Much time is lost to late ranks, but no rank owns it.",
        "hang": "The run hung, and until then no rank is known to have been slow.",
        "healthy": "No rank is slow."
        if not verdict.unjudged_ranks
        else "No rank that could be judged is slow.",
    }[verdict.verdict]


def _sentence(words: str) -> str:
    return f"{escape_text(capital(words))}."


def _ranks(verdict: Verdict) -> str:
    named = [str(rank) for rank in verdict.ranks[:MOST_NAMED]]
    more = len(verdict.ranks) - len(named)
    last = f"{more} more" if more else named.pop()
    listed = f"{', '.join(named)} and {last}" if named else last
    return f"Rank {listed}" if len(verdict.ranks) == 1 else f"Ranks {listed}"


def _summary(verdict: Verdict) -> str:
    if not verdict.phase and verdict.first_iteration is None:
        return ""
    parts = [_where(verdict.phase)]
    if verdict.first_iteration is not None:
        parts.append(f"{verdict.when} ({verdict.window})")
    cost = f"Without it the recorded steps would take {saved(verdict)}." if verdict.cost_ms > 0 else ""
    score = "" if math.isnan(verdict.score) else f"Score {verdict.score:.2f}; below 0.75 is bad."
    return " ".join(part for part in (", ".join(parts) + ".", cost, score) if part)


def _where(phase: str) -> str:
    if phase == UNLOGGED:
        return "Between the rows that were logged"
    return f"In {escape_text(phase)}" if phase else "In all phases"


def _gates(verdict: Verdict) -> Table:
    rows = [
        [gate.name, _figure(gate.value), _bound(gate), "passed" if gate.passed else "missed"]
        for gate in verdict.gates
    ]
    return table("Gates, in the order of judging", ["gate", "value", "bound", "result"], rows)


def _suspects(verdict: Verdict) -> Table:
    rows = [
        [listed_ranks(suspect.ranks), suspect.phase, percent(suspect.share), percent(suspect.likelihood)]
        for suspect in verdict.suspects
    ]
    caption = "Suspects: who may be slow, for certain or not; several ranks that act as one are one"
    return table(caption, ["ranks", "phase", "of the lost time", "likelihood"], rows)


def _bound(gate: Gate) -> str:
    """Return the bound of a gate in words.

    Most gates require a high value; the scores of roles and of all ranks must be low.
    """
    asks_for_much = gate.passed == (gate.value >= gate.bound)
    return f"{'at least' if asks_for_much else 'below'} {_figure(gate.bound)}"


def _figure(value: float) -> str:
    if math.isnan(value):
        return UNKNOWN
    return f"{value:.0f}" if value.is_integer() else f"{value:.2f}"


def _windows(findings: Findings) -> Table:
    return table_of(
        findings.windows,
        "Stretches in which a rank was slower than its peers, also those too short for a verdict",
        {
            "phase": Column("phase", text),
            "rank": Column("rank", integer),
            "labels": Column("role", text),
            "kind": Column("window", text),
            "first_iteration": Column("from", integer),
            "last_iteration": Column("to", integer),
            "iterations": Column("slow steps", integer),
            "ratio": Column("ratio", decimals(2)),
            "score": Column("score", decimals(2)),
            "cost_ms": Column("cost ms", decimals(1)),
        },
    )
