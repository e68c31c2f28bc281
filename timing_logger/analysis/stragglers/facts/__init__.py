"""What a verdict rests on, in values: a class for each kind of fact. Reports put them into words.

Facts are dataclasses and no named tuples, so that two kinds with the same values are not equal.
"""

from __future__ import annotations

import re

from timing_logger.analysis.hangs.result import plain_fields
from timing_logger.analysis.stragglers.facts.of_all_ranks import OfAllRanks, OfTransfers
from timing_logger.analysis.stragglers.facts.of_ranks import OfRanks, OfRows
from timing_logger.analysis.stragglers.facts.reasons import Reason

Fact = OfRanks | OfAllRanks | OfTransfers | OfRows | Reason
"""Anything that a verdict rests on."""


def code_of(kind: type[Fact]) -> str:
    """Return the code of a kind of fact in JSON: ``slow-rank`` for ``SlowRank``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def plain_fact(fact: Fact) -> dict[str, object]:
    """Return a fact as plain values that JSON can hold: its code as ``fact``, and its values by name."""
    return {"fact": code_of(type(fact)), **plain_fields(fact)}
