"""Why nobody could be judged, in words; and what imported runs do not tell an answer that needs it.

Each answer names here what it needs, whether it is read by a person or by a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch

from timing_logger.results import facts
from timing_logger.schema.record import escape_text
from timing_logger.schema.sidecar import NOT_TOLD
from timing_logger.words.units import listed, page, paragraph

_MOST_FUNCTIONS = 4
_MOST_LINKS = 3


def reason(fact: facts.Fact) -> str:
    """Return a reason in words, without a capital and a full stop."""
    return _WITHOUT_VALUES.get(type(fact)) or _in_words(fact)


_WITHOUT_VALUES: dict[type[facts.Fact], str] = {
    facts.NoRows: "there are no rows",
    facts.OneRank: "only one rank is recorded",
    facts.EachAlone: "every rank is alone in its role, so none has peers",
    facts.NoSelfTime: "of no step it is known how long a rank worked: neither rows of own work nor "
    "communication tell",
    facts.RolesMayWait: "ranks of several roles may wait for each other in something that is not logged, "
    "and too little of their own work is, so a slow role looks like the others",
}


@singledispatch
def _in_words(fact: facts.Fact) -> str:
    raise TypeError(f"{type(fact).__name__} has no words")


@_in_words.register
def _few_compared(fact: facts.FewCompared) -> str:
    return f"fewer than {fact.least_steps} steps are known of any two ranks of one role"


@_in_words.register
def _device_clock_hides(fact: facts.DeviceClockHides) -> str:
    return (
        "own work is timed on the device's clock, which goes on while a stream waits for other ranks "
        f"({fact.typical_wait_ms:.1f} ms in a typical step), so a slow rank looks like its peers"
    )


@_in_words.register
def _one_waited_for(fact: facts.OneWaitedFor) -> str:
    return (
        f"{fact.waiting_share:.0%} of all waiting was for rank {fact.rank}, and the run would be "
        f"{fact.run_share:.0%} shorter if it were like its peers, but it is slower by too little or in too "
        "few steps to name it"
    )


@_in_words.register
def _leaves_late(fact: facts.LeavesLate) -> str:
    return (
        f"rank {fact.rank} leaves collectives later than its peers, by {fact.late_ms:.1f} ms a step on "
        f"average, and the others waited for it for {fact.run_share:.0%} of the run; why, no row tells"
    )


@_in_words.register
def _untimed_calls(fact: facts.UntimedCalls) -> str:
    told = ", ".join(f"{calls} x {name}" for name, calls in fact.counts[:_MOST_FUNCTIONS])
    more = ", ..." if len(fact.counts) > _MOST_FUNCTIONS else ""
    return f"ranks may have waited for each other in calls that are not timed ({told}{more})"


@_in_words.register
def _communication_not_told(fact: facts.CommunicationNotTold) -> str:
    return (
        f"the rows were imported ({fact.kind}) from what does not tell when ranks wait for each other, and a "
        "rank that waits for a slow one takes as long as that"
    )


@_in_words.register
def _ranks_lacking(fact: facts.RanksLacking) -> str:
    return fact.how


@_in_words.register
def _different_runs(fact: facts.DifferentRuns) -> str:
    return f"the files look like those of different runs: {fact.how}"


@_in_words.register
def _unlike_links(fact: facts.UnlikeLinks) -> str:
    which = "two" if len(fact.slow) + len(fact.quick) == 2 else "kinds"
    return (
        f"transfers {_between(fact.slow)} take {fact.times_as_long:.1f} times as long as "
        f"{_between(fact.quick)} for the same bytes, {fact.run_share:.0%} of the run; which of the {which} "
        "is usual cannot be told from this run alone"
    )


def _between(transfers: Sequence[facts.Transfer]) -> str:
    """Say between whom transfers are: ``in group rail0``, or ``from rank 0 to rank 3``; of several, some."""
    some, more = transfers[:_MOST_LINKS], ", ..." if len(transfers) > _MOST_LINKS else ""
    if transfers[0].sender is not None:
        return ", ".join(f"from rank {one.sender} to rank {one.receiver}" for one in some) + more
    names = [one.group or "without a name" for one in some]
    return f"in group{'s' * (len(transfers) > 1)} {', '.join(names)}{more}"


NEEDED_BY: Mapping[str, tuple[str, ...]] = {
    "summary": tuple(NOT_TOLD),
    "summary --by": ("communication", "waits", "groups", "sizes", "own work"),
    "stragglers": ("communication", "waits", "groups", "own work"),
    "hang": ("communication", "instants", "groups", "peers", "end"),
    "waits": ("communication", "waits", "instants", "clocks", "groups", "peers", "own work"),
    "bandwidth": ("communication", "groups", "peers", "sizes"),
    "overlap": ("communication", "waits", "instants", "own work"),
    "what-if": ("communication", "waits", "instants", "groups", "peers", "sizes", "own work"),
    "compression": ("communication", "sizes"),
    "compare": ("communication", "waits", "groups", "sizes", "own work"),
    "report": tuple(NOT_TOLD),
    "trace": ("communication", "instants", "clocks", "groups", "peers", "own work"),
    "watch": ("communication", "waits", "groups", "own work", "end"),
}
"""What each answer needs, by the command that gives it and the names of ``sidecar.NOT_TOLD``."""

NEED_INSTANTS_OF_COMMUNICATION = frozenset(
    ("summary", "summary --by", "stragglers", "waits", "overlap", "what-if", "compare", "report", "watch")
)
"""The answers that need to know when communication was, where the source tells of any.

Steps that follow each other without gaps are as long as they were. What is between collectives is unknown."""

_UNKNOWN_WITHOUT_INSTANTS = (
    "Without instants it is not known who waited for whom, nor what share of the time anything took."
)

NotTold = Mapping[str, Sequence[str]]
"""What sources do not tell, by the kind of the import and the names of ``sidecar.NOT_TOLD``."""


def lacking_for(answer: str, not_told: NotTold) -> dict[str, list[str]]:
    """Return what an answer needs and sources do not tell, by the kind of the import.

    Args:
        answer: a key of :data:`NEEDED_BY`.
        not_told: what sources do not tell.
    """
    found = {}
    for kind, names in not_told.items():
        needed = {*NEEDED_BY[answer], *(("instants",) if _is_without_instants(answer, names) else ())}
        found[kind] = [name for name in NOT_TOLD if name in names and name in needed]
    return {kind: names for kind, names in found.items() if names}


def _is_without_instants(answer: str, names: Sequence[str]) -> bool:
    """Tell whether an answer is about communication of which it is not known when it was."""
    is_laid_out = "instants" in names and "communication" not in names
    return is_laid_out and answer in NEED_INSTANTS_OF_COMMUNICATION


def not_told_sentences(answer: str, not_told: NotTold) -> Iterable[str]:
    """Yield for each kind of import what it does not tell that an answer needs, and what follows of that."""
    for kind, names in lacking_for(answer, not_told).items():
        told = listed([NOT_TOLD[name] for name in names])
        follows = f" {_UNKNOWN_WITHOUT_INSTANTS}" if _is_without_instants(answer, not_told[kind]) else ""
        yield f"Imported ({escape_text(kind)}), from what does not tell {told}.{follows}"


def not_told_text(answer: str, not_told: NotTold, width: int) -> str:
    """Return these sentences as text; "" if there are none."""
    said = list(not_told_sentences(answer, not_told))
    return page(*paragraph(width, *said)) if said else ""


def not_told_values(answer: str, not_told: NotTold) -> list[dict[str, str]]:
    """Return the same as plain values: for each thing ``kind``, ``name`` and ``text``."""
    return [
        {"kind": kind, "name": name, "text": NOT_TOLD[name]}
        for kind, names in lacking_for(answer, not_told).items()
        for name in names
    ]
