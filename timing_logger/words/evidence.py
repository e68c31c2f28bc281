"""The facts that a verdict rests on in sentences, the same on the terminal, on the page and in JSON."""

from __future__ import annotations

import math
from functools import singledispatch

from timing_logger.reading.named_ranks import capital, named_ranks
from timing_logger.results import facts
from timing_logger.results.facts import Gate
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.verdict import Verdict
from timing_logger.schema.record import COMPILE, GC, GRAPH_CAPTURE, IMPORT
from timing_logger.words.not_told import reason
from timing_logger.words.units import count, fixed

_MOST_ROLES = 5


def evidence_sentences(verdict: Verdict) -> tuple[str, ...]:
    """Return what decided, and what the judgement is based on: ``verdict.evidence`` in sentences."""
    return tuple(sentence(fact) for fact in verdict.evidence)


TOLD_WITH_THE_VERDICT = (facts.WorkOfRank, facts.MoreRows, facts.UnevenWork, facts.Pauses)
"""Facts that the sentence of the verdict states: whether a rank is slow or has more to do, other causes."""


def evidence_beside_the_end(verdict: Verdict) -> tuple[str, ...]:
    """Return the evidence without what is shown separately: the end of the run, and what the verdict says."""
    elsewhere = (facts.EndedBadly, *TOLD_WITH_THE_VERDICT)
    return tuple(sentence(fact) for fact in verdict.evidence if not isinstance(fact, elsewhere))


def sentence(fact: facts.Fact) -> str:
    """Return a fact in a sentence, or in a few if it has much to say."""
    return _WITHOUT_VALUES.get(type(fact)) or _in_words(fact)


_WITHOUT_VALUES: dict[type[facts.Fact], str] = {
    facts.HostOrWork: "Half of the ranks were slower from the first step to the last: whether their "
    "host or their work is slow cannot be told.",
    facts.EveryRankInSlow: "All ranks take part in them, so whose link it is cannot be told.",
    facts.NobodyInAllSlow: "They have no rank in common, so whose link it is cannot be told.",
    facts.SelfTimeBetween: "Self time is the time between communication: rows of own work are missing "
    "or cover too little of it.",
    facts.OneRank: "Only one rank is recorded: nobody to compare it with.",
    facts.TwoRanks: "Two ranks: compared by their ratio, since one peer has no spread.",
    facts.StepsCounted: "No iteration is recorded: rounds of the collectives that repeat are counted as "
    "steps.",
    facts.EpochsCounted: "Iterations fall back and no epoch tells them apart: each time begins an "
    "epoch, counted.",
}


@singledispatch
def _in_words(fact: facts.Fact) -> str:
    """Word a fact by its kind; one without a function of its own is a reason why a run is not judged."""
    return f"{capital(reason(fact))}."


# -- slow ranks --------------------------------------------------------------------------------------------


@_in_words.register(facts.SlowRank)
def _how_slow(fact: facts.SlowRank | facts.NotNamed | facts.ExplainedWithout) -> str:
    return f"Rank {fact.rank}: {_by_how_much(fact.slowness, 'its peers')}"


def _by_how_much(slowness: facts.Slowness, others: str) -> str:
    return (
        f"{slowness.times_as_long:.2f} times the median of {others} ({slowness.window}, "
        f"{slowness.when.in_words()}, {count(slowness.slow_steps, 'slow step')})."
    )


@_in_words.register
def _slow_host(fact: facts.SlowHost) -> str:
    return f"The typical rank of {fact.host}: {_by_how_much(fact.slowness, 'the other hosts')}"


@_in_words.register
def _not_named(fact: facts.NotNamed) -> str:
    return f"{_how_slow(fact)} Not named: {'; '.join(map(_missed, fact.failed))}."


def _missed(gate: Gate) -> str:
    return f"{gate.name} {gate.value:.3g}, limit {gate.bound:.3g}"


@_in_words.register
def _explained_without(fact: facts.ExplainedWithout) -> str:
    return f"{_how_slow(fact)} Without it {fact.explained_share:.0%} of the lost time is explained."


@_in_words.register
def _act_as_one(fact: facts.ActAsOne) -> str:
    ranks = capital(named_ranks(fact.ranks))
    return f"{ranks} are slow in the same steps by the same amount: {_what_makes_them_slow(fact)}."


def _what_makes_them_slow(fact: facts.ActAsOne) -> str:
    unseen = "wait for each other in something that is not logged"
    no_other = f"of {fact.host}, and no rank of another host is as slow then"
    only_then = " only then" if fact.vary_together is False else ""
    is_whole = len(fact.ranks) == fact.host_ranks
    if fact.bond == "host":
        return f"these are all ranks {no_other}"
    if fact.bond == "part of host":
        part = f"{len(fact.ranks)} of the {fact.host_ranks} ranks"
        return f"these are {part} {no_other}, so they likely share something there"
    if fact.bond == "waiting":
        return f"they {unseen}, and it is one of them" + f", or {fact.host}, of which they are all" * is_whole
    shared = "storage, a network" if fact.n_hosts else "a host, storage"
    return f"they share something ({shared}), or {unseen}{only_then}, and it is one of them"


@_in_words.register
def _vary_alone(fact: facts.VaryAlone) -> str:
    operation = _explained(fact.operation)
    return f"Apart from that, {operation} varies on each by itself: nobody there waits for another in it."


def _explained(operation: str) -> str:
    """Return the name of an operation, with its meaning if it is not the name of rows."""
    return f"{operation}, the code that is not timed," if operation == UNLOGGED else operation


@_in_words.register
def _slow_operation(fact: facts.SlowOperation) -> str:
    operation = _explained(fact.operation)
    if math.isnan(fact.excess_share):
        return f"{operation} is where rank {fact.rank} spent most beyond its peers."
    return f"{operation} holds {fact.excess_share:.0%} of what rank {fact.rank} spent beyond its peers."


@_in_words.register
def _work_of_rank(fact: facts.WorkOfRank) -> str:
    times = f"{fixed(fact.times_as_long, 0 if fact.times_as_long >= 10 else 2)} times as long as"
    if not fact.explained_share > 0:
        return f"For the work that it has, rank {fact.rank} takes {times} its peers."
    return (
        f"Rank {fact.rank} has {fact.times_as_much:.2f} times the work of its peers, which explains "
        f"{fact.explained_share:.0%} of its delay; for the work that it has, it takes {times} they do."
    )


@_in_words.register
def _more_rows(fact: facts.MoreRows) -> str:
    return (
        f"Rank {fact.rank} does {fact.operation} {fact.times_as_many:.2f} times as often as its peers, which "
        f"explains {fact.explained_share:.0%} of its delay if each takes as long."
    )


@_in_words.register
def _uneven_work(fact: facts.UnevenWork) -> str:
    return (
        "The ranks have uneven work: with as much to do for all of them in each step, the run would be "
        f"{fact.run_share:.0%} shorter."
    )


_PAUSES = {
    GC: "the pauses of Python's garbage collector",
    COMPILE: "what torch.compile compiled after the first step",
    GRAPH_CAPTURE: "the captures of CUDA graphs after the first step",
    IMPORT: "the imports after the first step",
}


@_in_words.register
def _pauses(fact: facts.Pauses) -> str:
    return f"Without {_PAUSES[fact.operation]}, the run would be {fact.run_share:.0%} shorter."


@_in_words.register
def _most_waited_for(fact: facts.MostWaitedFor) -> str:
    whom = f"{fact.waiting_share:.0%} was for rank {fact.rank}"
    return f"Of the time that ranks waited in these steps, {whom}, the largest part."


@_in_words.register
def _passing_on(fact: facts.PassingOn) -> str:
    return f"Waited for, but not slow themselves, so passing on a delay: {named_ranks(fact.ranks)}."


@_in_words.register
def _costliest(fact: facts.Costliest) -> str:
    return f"The likelihood that it is the costliest, as costs vary, is {fact.likelihood:.0%}."


# -- all ranks ---------------------------------------------------------------------------------------------


@_in_words.register
def _slow_role(fact: facts.SlowRole) -> str:
    whether = " Whether the rank or the work of its role is slow cannot be told."
    return (
        f"Role {fact.role or 'without a name'}: {fact.times_as_long:.2f} times the median of the other "
        f"roles, its ranks alike.{whether if len(fact.ranks) == 1 else ''}"
    )


@_in_words.register
def _all_slower(fact: facts.AllSlower) -> str:
    how = "together" if fact.how == "together" else "after a growth that went on little by little"
    share = f"{fact.ranks_share:.0%} of the ranks"
    return f"{share} took {fact.times_as_long:.2f} times their own best past, {how}."


@_in_words.register
def _lost_to_slowest(fact: facts.LostToSlowest) -> str:
    whom = named_ranks(fact.ranks) if fact.ranks else "no one in particular"
    return (
        f"{fact.lost_share:.0%} of the time is lost to the slowest rank of each step, most of that to {whom}."
    )


@_in_words.register
def _ended_badly(fact: facts.EndedBadly) -> str:
    return fact.warning


# -- transfers ---------------------------------------------------------------------------------------------

_THAN = {
    "before": "they took before",
    "others": "others of their kind take",
    "usual": "they take in the others",
}


@_in_words.register
def _slow_transfers(fact: facts.SlowTransfers) -> str:
    often = f" in {fact.slow_steps} of {fact.recorded_steps} steps" if fact.than == "usual" else ""
    return (
        f"{_transfers(fact.transfer)} take {fact.took_ms:.3g} ms {_counted_from(fact.transfer)}{often}, "
        f"{fact.took_ms / fact.usual_ms:.1f} times what {_THAN[fact.than]} ({fact.usual_ms:.3g} ms)."
    )


def _transfers(transfer: facts.Transfer) -> str:
    """Return as which transfers are named: ``ALLREDUCE of up to 4096 bytes in group world``."""
    size = "" if transfer.up_to_bytes is None else f" of up to {transfer.up_to_bytes} bytes"
    if transfer.sender is not None:
        return f"Messages{size} from rank {transfer.sender} to rank {transfer.receiver}"
    return f"{transfer.operation}{size} in group {transfer.group or 'without a name'}"


def _counted_from(transfer: facts.Transfer) -> str:
    """Say what the time of a transfer covers.

    A non-blocking message may be complete long before its process learns of it.
    """
    is_message = transfer.sender is not None
    return "from when the later side began until it knew of the end" if is_message else "without waiting"


@_in_words.register
def _mostly_transfers(fact: facts.MostlyTransfers) -> str:
    return (
        f"Ranks are blocked in transfers, without waiting, for {fact.run_share:.0%} of the run, most of it "
        f"in {_transfers(fact.transfer)}. Nothing in this run says how long they should take."
    )


@_in_words.register
def _only_in_all_slow(fact: facts.OnlyInAllSlow) -> str:
    ranks = named_ranks(fact.ranks)
    return f"All slow transfers, and no others of their kind, have {ranks} in them."


@_in_words.register
def _on_host(fact: facts.OnHost) -> str:
    return f"That is the host {fact.host}."


@_in_words.register
def _others_in_all_slow(fact: facts.OthersInAllSlow) -> str:
    ranks = named_ranks(fact.ranks)
    return f"All slow transfers have {ranks} in them, but so have others of their kind."


# -- rows --------------------------------------------------------------------------------------------------


@_in_words.register
def _self_time_of_rows(fact: facts.SelfTimeOfRows) -> str:
    return f"Self time is that of the rows of own work: {', '.join(fact.operations) or 'there are none'}."


@_in_words.register
def _self_time_unknown(fact: facts.SelfTimeUnknown) -> str:
    return f"No step of {named_ranks(fact.ranks)} has a self time that is known: nothing is said of it."


@_in_words.register
def _alone_in_role(fact: facts.AloneInRole) -> str:
    roles = "; ".join(fact.roles[:_MOST_ROLES])
    more = "; ..." if len(fact.roles) > _MOST_ROLES else ""
    return f"There is only one rank in each of these roles, so no peer to compare it with: {roles}{more}."


@_in_words.register
def _few_steps(fact: facts.FewSteps) -> str:
    missed = ": a rank that is a little slow would not be seen" if fact.nobody_is_slow else ""
    are = "is" if fact.recorded_steps == 1 else "are"
    return f"Only {count(fact.recorded_steps, 'step')} {are} recorded{missed}."
