"""The text report on stragglers: the verdict in a sentence, the evidence, and the windows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from timing_logger.analysis.named_ranks import listed_ranks, named_ranks
from timing_logger.record import escape_text
from timing_logger.report._text_tables import (
    Column,
    as_hundredths,
    as_tenths,
    as_word,
    page,
    paragraph,
    table_text,
)
from timing_logger.report._wording import percent, seconds

if TYPE_CHECKING:
    import pandas as pd

    from timing_logger.analysis import Verdict

_WINDOWS = (
    Column("rank", "rank"), Column("phase", "phase", as_word), Column("labels", "role", as_word),
    Column("kind", "window"), Column("first_epoch", "first epoch"), Column("first_iteration", "first"),
    Column("last_epoch", "last epoch"), Column("last_iteration", "last"),
    Column("iterations", "slow steps"), Column("ratio", "x peers", as_hundredths),
    Column("score", "score", as_hundredths), Column("cost_ms", "cost ms", as_tenths),
)  # fmt: skip

_GATES = (
    Column("name", "gate"), Column("value", "value", as_hundredths), Column("bound", "bound", as_hundredths),
    Column("passed", "passed", lambda value: "yes" if value else "no"),
)  # fmt: skip

_SUSPECTS = (
    Column("ranks", "suspect"), Column("phase", "phase", as_word),
    Column("share", "of the lost time", percent), Column("likelihood", "likelihood", percent),
)  # fmt: skip

_MOST_WINDOWS = 12


def stragglers_text(verdict: Verdict, windows: pd.DataFrame, width: int) -> str:
    """Return the verdict in words, the evidence, and the windows in which ranks were slower than their peers.

    Args:
        windows: the windows of the analysis; only the first 12 are shown.
        width: columns of the terminal.
    """
    return page(
        *(paragraph(width, verdict.end.warning) if verdict.end.warning else ()),
        *paragraph(width, verdict_sentence(verdict)),
        *paragraph(width, *evidence_beside_the_end(verdict)),
        _gates_text(verdict, width),
        _suspects_text(verdict, width),
        table_text(windows[:_MOST_WINDOWS], _WINDOWS, width) if len(windows) else "",
        f"... and {len(windows) - _MOST_WINDOWS} windows more." if len(windows) > _MOST_WINDOWS else "",
    )


def evidence_beside_the_end(verdict: Verdict) -> tuple[str, ...]:
    """Return the evidence without the warning about the end of the run, which is shown separately."""
    return tuple(sentence for sentence in verdict.evidence if sentence != verdict.end.warning)


def verdict_sentence(verdict: Verdict) -> str:
    """Return one sentence: ``Verdict: rank 2 is slow, in BACKWARD, in iterations 40 to 60 (bounded) ...``."""
    if not verdict.judged:
        return f"Verdict: nobody could be judged: {escape_text(verdict.why)}."
    ranks = ", ".join(map(str, verdict.ranks))
    who = {
        "healthy": f"healthy. Nobody is slow{_of_conclusive_ranks(verdict)}",
        "rank": f"rank {ranks} is slow" if len(verdict.ranks) == 1 else f"ranks {ranks} are slow",
        "suspect": f"probably {who_is_suspected(verdict)}",
        "role": f"the role {verdict.labels} is slower than the others (ranks {ranks})",
        "group-wide": "all ranks are slower than in their own past",
        "communication": what_communication_does(verdict),
        "diffuse": "diffuse. Much time is lost to late ranks, but to nobody in particular",
        "hang": "the run hung, and until then nobody is known to have been slow",
    }[verdict.verdict]
    return f"Verdict: {escape_text(who)}{''.join(_particulars(verdict))}."


def who_is_suspected(verdict: Verdict) -> str:
    """Return the suspect in words: ``rank 1 is slow``, or ``one of ranks 4 to 7 is slow, which wait ...``.

    The latter is for several ranks that act as one.
    """
    ranks = verdict.suspects[0].ranks if verdict.suspects else ()
    if len(ranks) == 1:
        return f"rank {ranks[0]} is slow"
    return f"one of {named_ranks(ranks)} is slow, which wait for each other in something that is not logged"


def what_communication_does(verdict: Verdict) -> str:
    """Return in words that communication is slow, and in which group, or that it is most of the run.

    The latter is for a run whose rows do not show whether it is slow.
    """
    if not verdict.cost_ms > 0:
        return "most of the run is communication, and nothing in it says whether that is slow"
    return f"communication is slow{f' in group {verdict.labels}' if verdict.labels else ''}"


def _of_conclusive_ranks(verdict: Verdict) -> str:
    if not verdict.unjudged_ranks:
        return ""
    return f" of those that could be judged; not {named_ranks(verdict.unjudged_ranks)}"


def _particulars(verdict: Verdict) -> Iterable[str]:
    if verdict.phase:
        yield f", in {escape_text(verdict.phase)}"
    if verdict.first_iteration is not None:
        window = f" ({verdict.window})" if verdict.window else ""
        yield f", in {verdict.when}{window}"
    if not math.isnan(verdict.score):
        yield f"; score {verdict.score:.2f}"
    if verdict.cost_ms > 0:
        yield f"; without it the recorded steps would take {saved(verdict)}"


def saved(verdict: Verdict) -> str:
    """Return the cost of slowness in words: ``0.84 s less: 46% of the run``."""
    decimals = 0 if verdict.cost_share >= 0.02 else 1
    return f"{seconds(verdict.cost_ms)} less: {verdict.cost_share:.{decimals}%} of the run"


def _gates_text(verdict: Verdict, width: int) -> str:
    if not verdict.gates:
        return ""
    import pandas as pd

    return table_text(pd.DataFrame([gate._asdict() for gate in verdict.gates]), _GATES, width)


def _suspects_text(verdict: Verdict, width: int) -> str:
    if not verdict.suspects:
        return ""
    import pandas as pd

    rows = [{**suspect._asdict(), "ranks": listed_ranks(suspect.ranks)} for suspect in verdict.suspects]
    return table_text(pd.DataFrame(rows), _SUSPECTS, width)
