"""What a person asks of a run in progress: does it run, how fast, who is slow, who waits, does it hang.

The table in the terminal and the page in a browser say the same.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from timing_logger.analysis.rows.files import not_told
from timing_logger.live.events import change_text
from timing_logger.report._limits import MOST_LINES, on_left_out
from timing_logger.report._text_tables import drawn, new_table
from timing_logger.results import criteria
from timing_logger.results.facts import FewSteps
from timing_logger.words.not_told import not_told_sentences
from timing_logger.words.units import count, fixed, or_unknown, page, percent, wrapped
from timing_logger.words.verdict import verdict_sentence

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.live.watcher import RankNow, Snapshot


State = Literal["runs", "hangs", "silent", "over"]

MOST_CHANGES = 5
"""How many of the last changes are shown: what came before is in ``verdicts.jsonl``, if that is written."""

_MOST_SENTENCES = 4


class Now(NamedTuple):
    """The answers.

    Attributes:
        state: ``silent`` if there is no sign of life, and nothing hangs as far as is known.
        headline: whether the run goes on, how fast, and where it is.
        verdict: who is slow, in what.
        waits: who waits, and for which part of the time; "" if that is not known, or ``hangs`` says it.
        hangs: sentences on what hangs, or may be about to; none where nothing does.
        not_told: sentences on what the source of an imported run does not tell; none of other runs.
    """

    state: State
    headline: str
    verdict: str
    waits: str
    hangs: tuple[str, ...]
    not_told: tuple[str, ...]


def now_of(snapshot: Snapshot) -> Now:
    """Return the answers that a snapshot from ``Watcher.snapshot`` gives."""
    state = _state(snapshot)
    few = any(isinstance(fact, FewSteps) for fact in snapshot.verdict.evidence)
    about = (count(len(snapshot.ranks), "rank"), *_speed(snapshot, state), *_place(snapshot.ranks))
    return Now(
        state=state,
        headline=f"{_how_it_is(snapshot, state)}: {', '.join(about)}",
        verdict=verdict_sentence(snapshot.verdict) + (" Few steps so far." if few else ""),
        waits="" if state == "hangs" else _waits(snapshot.ranks),
        hangs=_on_the_end(snapshot),
        not_told=tuple(not_told_sentences("watch", not_told(snapshot.files))),
    )


def looked_at(window_s: float) -> str:
    """Return in words what part of a run is looked at.

    Args:
        window_s: the time that it spans, in seconds; NaN if that is not known.
    """
    return "the newest rows of each rank" if math.isnan(window_s) else f"the last {window_s:.0f} s of the run"


def worst_first(snapshot: Snapshot, most: int = MOST_LINES) -> list[RankNow]:
    """Return the ranks that are worst off: named ones, those that lost records, are behind or are silent.

    Of these so many are chosen. They come in the order in which they are named, then by how little they
    waited: the others wait for them.
    """
    end = snapshot.end
    named = (*end.culprits, *end.circle, *end.gone, *snapshot.verdict.ranks_to_look_at)
    place = {rank: at for at, rank in enumerate(dict.fromkeys(named))}
    chosen = sorted(
        snapshot.ranks,
        key=lambda now: (now.rank not in place, not now.dropped, now.closed, _step(now), -now.silent_s),
    )[:most]
    return sorted(chosen, key=lambda now: (place.get(now.rank, len(place)), _waited(now), now.rank))


def _waited(now: RankNow) -> float:
    return math.inf if math.isnan(now.waited_share) else now.waited_share


def _step(now: RankNow) -> tuple[int, int]:
    """Return the latest step of a rank; one that has recorded none comes before all."""
    return (-1 if now.epoch is None else now.epoch), (-1 if now.iteration is None else now.iteration)


# -- does it run, how fast, and where is it ----------------------------------------------------------------


def _state(snapshot: Snapshot) -> State:
    if snapshot.end.hangs:
        return "hangs"
    if snapshot.is_over:
        return "over"
    if snapshot.end.state == "running":
        return "runs"
    writes = snapshot.end.state == "unknown" and _silent_s(snapshot.ranks) < criteria.QUIET_AFTER_S
    return "runs" if writes else "silent"


def _how_it_is(snapshot: Snapshot, state: State) -> str:
    since = f"{_silent_s(snapshot.ranks):.0f} s"
    if state == "runs" and _silent_s(snapshot.ranks) >= criteria.QUIET_AFTER_S:
        return f"Running, without a new row for {since}"
    over = {"failed": "The run ended after a collective had failed", "unknown": "The import has ended"}
    return {
        "runs": "Running",
        "hangs": "It hangs",
        "silent": f"No sign of life for {since}",
        "over": over.get(snapshot.end.state, "The run ended"),
    }[state]


def _silent_s(ranks: Sequence[RankNow]) -> float:
    """Return for how long no rank that goes on has written."""
    return min((now.silent_s for now in ranks if not now.closed), default=0.0)


def _speed(snapshot: Snapshot, state: State) -> Iterable[str]:
    """Yield the speed of the typical rank: of a run that stands still, it would be that of before."""
    if state not in ("runs", "over") or _silent_s(snapshot.ranks) >= criteria.QUIET_AFTER_S:
        return
    for unit, rates in (
        ("iterations/s", [now.iterations_per_s for now in snapshot.ranks]),
        ("rows/s on each", [now.rows_per_s for now in snapshot.ranks]),
    ):
        known = [rate for rate in rates if rate > 0]
        if known:
            rate = statistics.median(known)
            yield f"{fixed(rate, 1 if rate >= 1 else 3)} {unit}"
            return


def _place(ranks: Sequence[RankNow]) -> Iterable[str]:
    """Yield how far the ranks are."""
    steps = sorted(_step(now) for now in ranks if now.iteration is not None)
    if not steps:
        return
    (first_epoch, first), (epoch, last) = steps[0], steps[-1]
    of_epoch = f" of epoch {epoch}" if epoch >= 0 else ""
    apart = first_epoch == epoch and last - first > 1  # a look may come between two ranks
    yield f"at iterations {first} to {last}{of_epoch}" if apart else f"at iteration {last}{of_epoch}"


# -- who waits, and does it hang --------------------------------------------------------------------------


def _waits(ranks: Sequence[RankNow]) -> str:
    known = sorted((now.waited_share, now.rank) for now in ranks if not math.isnan(now.waited_share))
    if not known:
        return ""
    (least, rank_least), (most, rank_most) = known[0], known[-1]
    if most < criteria.ANY_WAITING_SHARE:
        return f"Nobody waits much: rank {rank_most} most, for {percent(most)} of its time."
    mean = percent(statistics.fmean(share for share, _ in known))
    between = f", from {percent(least)} (rank {rank_least}) to {percent(most)} (rank {rank_most})"
    return f"Ranks waited for {mean} of their time on average{between if len(known) > 1 else ''}."


def _on_the_end(snapshot: Snapshot) -> tuple[str, ...]:
    """Return sentences about what hangs, or may be about to; none for a run that continues or has ended."""
    end = snapshot.end
    lasts = any((group.since_s or 0.0) >= criteria.OPEN_WORTH_TELLING_S for group in end.younger)
    tells = end.warning or (end.state == "running" and (end.gone or lasts))
    return end.sentences[:_MOST_SENTENCES] if tells else ()


# -- a table of a run in progress, which is drawn repeatedly ---------------------------------------------


WORST = "that are slow, hang or lost records, if any, and then those that are behind or silent for longest"
"""Which of many ranks are shown."""

_HEADS = (
    "rank", "epoch", "iteration", "it/s", "rows", "rows/s", "communication", "WAIT", "open", "dropped",
    "silent s", "state",
)  # fmt: skip


def snapshot_text(
    snapshot: Snapshot, width: int, *, everything: bool = False, changes: Sequence[Change] = ()
) -> str:
    """Return the text of a snapshot.

    Args:
        snapshot: as ``Watcher.snapshot`` returns it.
        width: columns of the terminal.
        everything: whether all ranks are shown, however many.
        changes: what changed so far, the latest last.
    """
    now = now_of(snapshot)
    shown = sorted(snapshot.ranks if everything else worst_first(snapshot))
    heads, rows = table_of_ranks(snapshot, shown)
    table = new_table(*heads)
    for row in rows:
        table.add_row(*row)
    left_out = on_left_out(len(snapshot.ranks), len(shown), "ranks", WORST)
    return page(
        wrapped(f"{now.headline}; {looked_at(snapshot.window_s)}", width),
        drawn(table, width),
        _lines([*left_out, *now.hangs, now.verdict, now.waits, *now.not_told], width),
        _lines(["Changes:", *map(change_text, changes[-MOST_CHANGES:])] if changes else [], width),
    )


def table_of_ranks(snapshot: Snapshot, shown: Sequence[RankNow]) -> tuple[list[str], list[list[str]]]:
    """Return the heads of a table of ranks, and a row for each of ``shown``."""
    has_epochs = any(rank.epoch is not None for rank in snapshot.ranks)
    heads = [head for head in _HEADS if has_epochs or head != "epoch"]
    rows = [dict(zip(_HEADS, _cells(rank), strict=True)) for rank in shown]
    return heads, [[row[head] for head in heads] for row in rows]


def _lines(sentences: Sequence[str], width: int) -> str:
    return "\n".join(wrapped(sentence, width) for sentence in sentences if sentence)


def _cells(rank: RankNow) -> list[str]:
    return [
        str(rank.rank), or_unknown(rank.epoch), or_unknown(rank.iteration), fixed(rank.iterations_per_s, 1),
        or_unknown(rank.written), fixed(rank.rows_per_s, 0), percent(rank.communication_share),
        percent(rank.waited_share), str(rank.unfinished), or_unknown(rank.dropped), fixed(rank.silent_s, 0),
        "closed" if rank.closed else "",
    ]  # fmt: skip
