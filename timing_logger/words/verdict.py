"""The verdict in words, the same on the terminal, on the page and at the end of a job."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from timing_logger.reading.named_ranks import capital, named_ranks
from timing_logger.results import criteria
from timing_logger.results.cause import kind_of_cause
from timing_logger.results.facts import Gate, NoRows, Pauses, UnevenWork
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.verdict import Verdict
from timing_logger.schema.record import COMPILE, GC, GRAPH_CAPTURE, IMPORT, escape_text
from timing_logger.words.cause import cause_sentence, no_cause
from timing_logger.words.evidence import TOLD_WITH_THE_VERDICT, sentence
from timing_logger.words.not_told import reason
from timing_logger.words.units import count, fixed, seconds

_WINDOWS = {
    "persistent": "throughout ({})",
    "ongoing": "to the end of the run ({})",
    "bounded": "in {} only",
    "intermittent": "now and then ({})",
    "": "in {}",
}


def headline(verdict: Verdict) -> str:
    """Return who is slow and what it costs: ``Rank 2 costs this run 0.84 s, 50% of the recorded time.``"""
    return capital(_found(verdict))


def particulars(verdict: Verdict) -> str:
    """Return when and where the time is lost, and how sure that is; "" if no time is lost.

    An example is ``26 ms in each of 32 steps, throughout (iterations 1 to 32), in DATA. Certain.``
    """
    when, where = escape_text(", ".join(_when(verdict))), escape_text(_where(verdict))
    lost = ", ".join(filter(None, (when, where))) if when else where and f"all of it {where}"
    sentences = (
        lost and f"{capital(lost)}.",
        _how_sure(verdict),
        _whose(verdict),
        _coinciding(verdict),
        *_further_waits(verdict),
    )
    return " ".join(sentence for sentence in sentences if sentence)


def what_next(verdict: Verdict) -> str:
    """Return what to look at next, in one sentence; "" if nothing is slow, or there is nothing."""
    if not verdict.judged:
        return "" if isinstance(verdict.why, NoRows) else "timing-logger summary shows where the time went."
    if verdict.verdict in _OF_NOBODY and verdict.owner != "work" and (operation := _pauses_for(verdict)):
        return _NEXT_BY_OPERATION[operation]
    if verdict.cause is not None:
        return kind_of_cause(verdict.cause.name).look_at.format(_place(verdict))
    if verdict.verdict == "healthy":
        told = (
            max(verdict.not_explained, verdict.lost_in_turn, verdict.recurring, verdict.unmatched)
            >= criteria.TOLD_COST_SHARE
        )
        return "timing-logger waits shows who waited for whom." if told else ""
    if verdict.operation == UNLOGGED:
        return _NEXT_IN_UNTIMED_CODE if verdict.in_python else _NEXT_OUTSIDE_OF_PYTHON
    if verdict.owner == "work":
        return _NEXT_AT_UNEVEN_WORK
    if verdict.verdict in ("rank", "suspect"):
        owner = verdict.owner if verdict.in_python or verdict.owner != "unknown" else "elsewhere"
        usual = _NEXT_BY_OWNER.get(owner, _NEXT_BY_OWNER["machine"])
        return _NEXT_BY_OPERATION.get(verdict.operation, usual).format(_place(verdict))
    return _NEXT_BY_KIND[verdict.verdict]


_OF_NOBODY = ("healthy", "diffuse", "group-wide")


def _pauses_for(verdict: Verdict) -> str:
    """Return the operation of the pauses that cost the run most; "" if none cost enough to be told."""
    return next((fact.operation for fact in verdict.evidence if isinstance(fact, Pauses)), "")


def verdict_sentence(verdict: Verdict) -> str:
    """Return the verdict in a line: ``Verdict: rank 2 costs this run ... Certain.``"""
    return f"Verdict: {_found(verdict)} {particulars(verdict)}".rstrip()


def in_words(verdict: Verdict) -> str:
    """Return the verdict in a line, with what to look at next."""
    return f"{verdict_sentence(verdict)} {what_next(verdict)}".rstrip()


def in_operation(operation: str, between: tuple[str, ...]) -> str:
    """Return where time is lost: the name of an operation, or the rows between which nothing is timed."""
    if operation != UNLOGGED:
        return operation
    if not between:
        return "code that is not timed"
    before, after = between
    around = f"one {before} and the next" if before == after else f"{before} and {after}"
    return f"code that is not timed, between {around}"


def side_of_limit(gate: Gate) -> str:
    """Return on which side of its limit the figure of a condition is; neither side is good by itself."""
    if math.isnan(gate.value):
        return "not known"
    return "below the limit" if gate.value < gate.bound else "at or above the limit"


# -- who ---------------------------------------------------------------------------------------------------


def _found(verdict: Verdict) -> str:
    if verdict.why:
        return f"nobody could be judged: {escape_text(reason(verdict.why))}."
    return f"{escape_text(_WHO[verdict.verdict](verdict))}."


def _named(verdict: Verdict) -> str:
    return f"{_who(verdict)} cost{'s' * (len(verdict.ranks) == 1)} this run {_cost(verdict)}"


def _all_of_host(verdict: Verdict) -> str:
    ranks = verdict.ranks_to_look_at
    return f"the {len(ranks)} ranks of {verdict.hosts[0]} ({named_ranks(ranks)})"


def _suspected(verdict: Verdict) -> str:
    if verdict.bond in ("host", "part of host"):
        return f"probably {_who(verdict)} cost this run {_cost(verdict)}"
    one_of = "" if len(verdict.ranks_to_look_at) == 1 else "one of "
    tied = _TIED.get(verdict.bond, _TIED["something"]) if one_of else ""
    return f"probably {one_of}{_who(verdict)}{tied} costs this run {_cost(verdict)}"


_TIED = {
    "waiting": ", which wait for each other in something that is not logged,",
    "something": ", or something that they share,",
}


def _role(verdict: Verdict) -> str:
    if verdict.bond == "host" and verdict.hosts:
        return f"{_all_of_host(verdict)}, or their work, are slow and cost this run {_cost(verdict)}"
    role = f"the role {verdict.labels}" if verdict.labels else "one role"
    ranks = named_ranks(verdict.ranks)
    return f"{role} ({ranks}) is slower than the others and costs this run {_cost(verdict)}"


def _group_wide(verdict: Verdict) -> str:
    return f"all ranks slowed down together, which costs this run {_cost(verdict)}"


def _communication(verdict: Verdict) -> str:
    if not verdict.cost_ms > 0:  # its rows do not show whether it is slow
        return "most of the run is communication, and nothing in it says whether that is slow"
    group = f" in group {verdict.labels}" if verdict.labels else ""
    return f"communication is slow{group} and costs this run {_cost(verdict)}"


def _diffuse(verdict: Verdict) -> str:
    cost = f": {_cost(verdict)}" if verdict.cost_ms > 0 else ""
    if verdict.waited_for:
        whom = named_ranks(verdict.waited_for)
        return f"no rank can be named, but much time is lost, most of it to {whom}{cost}"
    return f"no rank in particular, but much time is lost to late ranks in turn{cost}"


def _healthy(verdict: Verdict) -> str:
    found = "no rank is slow"
    if verdict.unjudged_ranks:
        unjudged = named_ranks(verdict.unjudged_ranks)
        found = f"no rank that could be judged is slow; {unjudged} could not be judged"
    if verdict.not_explained < criteria.TOLD_COST_SHARE:
        return f"{found}{_lost_in_turn(verdict)}"
    part = f"{verdict.not_explained:.0%} of the run"
    return f"{found}, but {part} was waiting that nothing found here explains{_mostly(verdict.waited_for)}"


def _lost_in_turn(verdict: Verdict) -> str:
    if verdict.lost_in_turn < criteria.TOLD_COST_SHARE:
        return ""
    longer = "the slowest of each step worked longer than the typical one"
    return f", but {longer}, for {verdict.lost_in_turn:.0%} of the run together"


def _mostly(ranks: Sequence[int]) -> str:
    return f", mostly for {named_ranks(ranks)}" if ranks else ", for no rank in particular"


def _further_waits(verdict: Verdict) -> Iterable[str]:
    """Yield what else of a run without slow ranks was waiting, so that the answer adds up."""
    if verdict.verdict != "healthy" or not verdict.judged:
        return
    if verdict.recurring >= criteria.TOLD_COST_SHARE:
        whom = _mostly(verdict.recurring_for)
        yield (
            f"{verdict.recurring:.0%} of the run was waiting that recurs in most steps{whom}, as "
            "where ranks have unequal work."
        )
    if verdict.unmatched >= criteria.TOLD_COST_SHARE:
        yield (
            f"{verdict.unmatched:.0%} of the run was communication of which the rows do not tell for whom "
            "ranks waited."
        )


def _hang(verdict: Verdict) -> str:
    end = verdict.end
    failed = bool(end.groups) and not end.messages and not any(group.inside for group in end.groups)
    what = "broke off in a collective that failed" if failed else "hung"
    return f"the run {what}, and until then no rank is known to have been slow"


_WHO = {
    "rank": _named,
    "suspect": _suspected,
    "role": _role,
    "group-wide": _group_wide,
    "communication": _communication,
    "diffuse": _diffuse,
    "healthy": _healthy,
    "hang": _hang,
}


def _who(verdict: Verdict) -> str:
    if verdict.bond == "host" and verdict.hosts:
        return f"{_all_of_host(verdict)}, likely the host,"
    return f"{named_ranks(verdict.ranks_to_look_at)}{_place(verdict)}"


def _place(verdict: Verdict) -> str:
    return f" on {', '.join(verdict.hosts)}" if 0 < len(verdict.hosts) <= 3 else ""


def _cost(verdict: Verdict) -> str:
    decimals = 0 if verdict.cost_share >= 0.02 else 1
    whole = "the recorded time" if verdict.recorded_every == 1 else "the run"
    return f"{seconds(verdict.cost_ms)}, {verdict.cost_share:.{decimals}%} of {whole}"


# -- when, where, how sure ---------------------------------------------------------------------------------


def _when(verdict: Verdict) -> Iterable[str]:
    if verdict.slow_steps and verdict.cost_ms > 0:
        each_ms = verdict.cost_ms / verdict.slow_steps / verdict.recorded_every
        steps = count(verdict.slow_steps, "step")
        yield f"{fixed(each_ms, 0 if each_ms >= 10 else 2)} ms in each of {steps}{_recorded(verdict)}"
    if verdict.when:
        yield _WINDOWS[verdict.window].format(verdict.when)


def _where(verdict: Verdict) -> str:
    return f"in {in_operation(verdict.operation, verdict.between)}" if verdict.operation else ""


def _recorded(verdict: Verdict) -> str:
    every = verdict.recorded_every
    return f" recorded, each taken to stand for {every} iterations" if every > 1 else ""


def _how_sure(verdict: Verdict) -> str:
    if verdict.verdict not in ("rank", "suspect") or not verdict.suspects or not verdict.judged:
        return ""
    if missed := [f"{gate.name} is {side_of_limit(gate)}" for gate in verdict.gates if not gate.passed]:
        return f"Not certain: {'; '.join(missed)}."
    least = min(suspect.likelihood for suspect in verdict.suspects[: max(1, len(verdict.ranks))])
    if math.isnan(least):
        return ""
    return (
        "Certain."
        if verdict.verdict == "rank" and least >= criteria.CERTAIN_LIKELIHOOD
        else f"Likelihood {least:.0%}."
    )


def _whose(verdict: Verdict) -> str:
    """Say that a rank is slow, or has more to do, as far as rows tell; "" if they do not."""
    return " ".join(sentence(fact) for fact in verdict.evidence if isinstance(fact, TOLD_WITH_THE_VERDICT))


def _coinciding(verdict: Verdict) -> str:
    if verdict.cause is not None:
        return cause_sentence(verdict.cause)
    return no_cause(verdict) if _is_lost_without_a_cause(verdict) else ""


def _is_lost_without_a_cause(verdict: Verdict) -> bool:
    """Tell whether a part of the run that can be seen is lost to nobody, and no fact says why."""
    if not verdict.judged or any(isinstance(fact, (UnevenWork, Pauses)) for fact in verdict.evidence):
        return False
    # What costs less is told, but no counters are looked at for it.
    is_lost = max(verdict.not_explained, verdict.lost_in_turn) >= verdict.policy.visible_cost_share
    return verdict.verdict == "diffuse" or (verdict.verdict == "healthy" and is_lost)


# -- what next ---------------------------------------------------------------------------------------------

_NEXT_IN_UNTIMED_CODE = (
    'To see what it does there, put parts of that code into blocks of logger.operation("NAME").'
)
_NEXT_OUTSIDE_OF_PYTHON = "Only its MPI calls were timed; a profiler such as perf shows what it does there."

_NEXT_BY_OWNER = {
    "machine": "Look{} for what its peers do not have: other processes, a slower clock.",
    "both": "Look{} for what its peers do not have: other processes, a slower clock; and give it less work.",
    "unknown": "Look{} for what its peers do not have: other processes, a slower clock, or more work, which "
    "logger.set_current_work(n) in each step would tell.",
    "elsewhere": "Look{} for what its peers do not have: other processes, a slower clock, or more work.",
}
"""What to look at by the owner of the delay, with a place for the host."""

_NEXT_AT_UNEVEN_WORK = "Give all ranks as much to do: batches of equal lengths, or packed ones."

_NEXT_BY_OPERATION = {
    "DATA": "Look{} at where its batches come from: storage, workers of the loader, other processes.",
    "H2D": "Look{} at its link to the device, and whether its buffers are pinned.",
    GC: "Collect less: gc.freeze() after setting up, fewer objects in cycles, or gc.collect() in the same "
    "step of all ranks, with the collector off in between.",
    COMPILE: "TORCH_LOGS=recompiles tells why code is compiled again; for shapes that vary, dynamic=True or "
    "padding helps.",
    GRAPH_CAPTURE: "Capture each graph once, before the first step; a new shape needs a new capture.",
    IMPORT: "Import at the top of the program what is imported in steps: the rows IMPORT name the modules.",
    "D2H": "Look{} at its link to the device, and whether its buffers are pinned.",
}
"""What to look at by operation, with a place for the host."""

_NEXT_BY_KIND = {
    "role": "Compare the work of that role with that of the others: its layers, its batches, its devices.",
    "group-wide": "Look at what changed for all of them then: data, storage, clocks of the devices.",
    "communication": "timing-logger bandwidth has the transfers by operation and size.",
    "diffuse": "timing-logger waits tells who waited for whom; ranks that share cores look like this, too.",
    "hang": "timing-logger hang tells who waits for whom.",
}
