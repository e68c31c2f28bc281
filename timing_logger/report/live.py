"""A table of a run in progress, which is drawn repeatedly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timing_logger.analysis.stragglers.rank_facts import FewSteps
from timing_logger.report._limits import MOST_LINES, on_left_out
from timing_logger.report._text_tables import drawn, new_table, wrapped
from timing_logger.report._wording import count, fixed, or_unknown, percent
from timing_logger.report.verdict_wording import verdict_sentence

if TYPE_CHECKING:
    from timing_logger.engine.live import RankNow, Snapshot

_MOST_SENTENCES = 4
_WORTH_TELLING_S = 1.0  # most collectives are shorter, and some rank is in one at any moment
_WORST = "that are slow, hang or lost records, if any, and then those that are behind or silent for longest"
_HEADS = (
    "rank", "epoch", "iteration", "it/s", "rows", "rows/s", "communication", "WAIT", "open", "dropped",
    "silent s", "state",
)  # fmt: skip


def snapshot_text(snapshot: Snapshot, width: int, *, everything: bool = False) -> str:
    """Return the text of a snapshot from ``Watcher.snapshot``; of many ranks some, if not ``everything``."""
    has_epochs = any(rank.epoch is not None for rank in snapshot.ranks)
    shown = [head for head in _HEADS if has_epochs or head != "epoch"]
    table = new_table(*shown)
    drawn_ranks = snapshot.ranks if everything else _worst(snapshot)
    for rank in drawn_ranks:
        cells = dict(zip(_HEADS, _cells(rank), strict=True))
        table.add_row(*(cells[head] for head in shown))
    about = f"{count(len(snapshot.ranks), 'rank')}; the last {snapshot.window_s:.0f} s of the run"
    left_out = on_left_out(len(snapshot.ranks), len(drawn_ranks), "ranks", _WORST)
    said = [*left_out, *_on_the_end(snapshot)]
    end = "".join(f"{wrapped(sentence, width)}\n" for sentence in said)
    return f"{about}\n\n{drawn(table, width)}\n\n{end}{wrapped(_verdict(snapshot), width)}\n"


def _worst(snapshot: Snapshot) -> list[RankNow]:
    """Return the ranks that are worst off, as many as a table names, in ascending order."""
    end = snapshot.end
    named = {*snapshot.verdict.ranks_to_look_at, *end.culprits, *end.circle, *end.gone}
    worst_first = sorted(
        snapshot.ranks,
        key=lambda now: (now.rank not in named, not now.dropped, now.closed, _step(now), -now.silent_s),
    )
    return sorted(worst_first[:MOST_LINES])


def _step(now: RankNow) -> tuple[int, int]:
    """Return the latest step of a rank; one that has recorded none comes before all."""
    return (-1 if now.epoch is None else now.epoch), (-1 if now.iteration is None else now.iteration)


def _cells(rank: RankNow) -> list[str]:
    return [
        str(rank.rank), or_unknown(rank.epoch), or_unknown(rank.iteration), fixed(rank.iterations_per_s, 1),
        or_unknown(rank.written), fixed(rank.rows_per_s, 0), percent(rank.communication_share),
        percent(rank.waited_share), str(rank.unfinished), or_unknown(rank.dropped), fixed(rank.silent_s, 0),
        "closed" if rank.closed else "",
    ]  # fmt: skip


def _on_the_end(snapshot: Snapshot) -> tuple[str, ...]:
    """Return sentences about what hangs, or may be about to; none for a run that continues or has ended."""
    end = snapshot.end
    lasts = any((group.since_s or 0.0) >= _WORTH_TELLING_S for group in end.younger)
    tells = end.warning or (end.state == "running" and (end.gone or lasts))
    return end.sentences[:_MOST_SENTENCES] if tells else ()


def _verdict(snapshot: Snapshot) -> str:
    few = any(isinstance(fact, FewSteps) for fact in snapshot.verdict.evidence)
    return verdict_sentence(snapshot.verdict) + (" Few steps so far." if few else "")
