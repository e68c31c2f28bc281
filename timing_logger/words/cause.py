"""What host counters showed while time was lost, in words: it coincides, and is called nothing more."""

from __future__ import annotations

import math

from timing_logger.reading.named_ranks import named_ranks
from timing_logger.results.cause import Cause, Sought
from timing_logger.results.verdict import Verdict
from timing_logger.schema.host_counters import BY_NAME
from timing_logger.words.units import count, fixed, size


def cause_sentence(cause: Cause) -> str:
    """Return what coincides with the time that is lost, in a sentence."""
    return f"What coincides: {_BY_HOW[cause.how](cause)}."


def what_was_sought(sought: Sought | None) -> str:
    """Return which host counters were looked at, in sentences."""
    if sought is None:
        return "No host counters were looked at."
    where = f"{sought.stretches} stretches of about {sought.stretch_s:.2g} s"
    seen = f"{count(len(sought.counters), 'host counter')} of {count(sought.ranks, 'rank')} in {where}"
    if math.isnan(sought.chance):
        return f"Looked at for what coincides: {seen}, against the peers."
    return (
        f"Looked at for what coincides: {seen}. The best would go with it as well by chance with a "
        f"probability of {sought.chance:.2g}."
    )


def _coincides(cause: Cause) -> str:
    others = "none" if not cause.other_with else str(cause.other_with)
    return (
        f"in {cause.slow_with} of its {cause.slow} slow {_stretches(cause)}, {_who(cause)} {_did(cause)}"
        f"{_how_much(cause)}; as much in {others} of its {cause.other} others"
    )


def _throughout(cause: Cause) -> str:
    return (
        f"all along {_who(cause)} {_did(cause)}{_how_much(cause)}, and its peers less; it has no usual "
        "steps to compare with"
    )


def _shared(cause: Cause) -> str:
    if cause.other:
        return (
            f"in {cause.slow_with} of {cause.slow} slow {_stretches(cause)}, {_who(cause)} {_did(cause)}"
            f"{_how_much(cause)}; as much in {cause.other_with or 'none'} of {cause.other} others"
        )
    if not cause.states_time:
        return f"each rank was late when it {_did(cause)}"
    crowded = ""
    if cause.name == "processor-wait" and cause.runnable > cause.usable_cores:
        crowded = f", where {cause.runnable:.0f} tasks wanted {cause.usable_cores:.0f} cores"
    return f"{_who(cause)} {_did(cause)} for {cause.time_share:.0%} of its time{crowded}"


_BY_HOW = {"coincides": _coincides, "throughout": _throughout, "shared": _shared}


def _stretches(cause: Cause) -> str:
    return "steps" if cause.stretch_steps <= 1 else f"stretches of {cause.stretch_steps} steps"


def _who(cause: Cause) -> str:
    return named_ranks(cause.ranks) if cause.ranks else "the typical rank"


def _did(cause: Cause) -> str:
    return BY_NAME[cause.counter].did


def _how_much(cause: Cause) -> str:
    if not cause.states_time:
        in_kb = BY_NAME[cause.counter].unit == "kb"
        rate = size(1e3 * cause.in_slow) if in_kb else _number(cause.in_slow)
        return f", typically {rate} per second ({cause.counter})"
    its, late = (fixed(each_ms, 0 if each_ms >= 10 else 1) for each_ms in (cause.in_slow, cause.delay_ms))
    if cause.in_slow > cause.delay_ms:
        return f", typically {its} ms where it was {late} ms late"
    return f", typically {its} of the {late} ms that it was late"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def no_cause(verdict: Verdict) -> str:
    """Return that no cause is known of a loss, and what was looked at."""
    if verdict.sought is None:
        return "Why is not known: no host counters were looked at."
    n = count(len(verdict.sought.counters), "host counter")
    return f"Why is not known: none of {n} goes with it more than by chance."
