"""What the single questions were answered, for people: a table, and what must be known to read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from timing_logger.record import escape_text
from timing_logger.report._drawing import drawn, new_table, wrapped
from timing_logger.report._words import UNKNOWN, count, fixed, percent, size

if TYPE_CHECKING:
    import pandas as pd

    from timing_logger.analysis import Verdict


_LEAST_WIDTH_OF_NAMES = 14
_WIDE = 100


class Column(NamedTuple):
    """One column of a table.

    Attributes:
        name: of the analysis.
        head: what stands above it.
        shown: a value as text.
    """

    name: str
    head: str
    shown: Callable[[Any], str] = str


def table_text(frame: pd.DataFrame, columns: Sequence[Column], width: int) -> str:
    """``frame`` as a table; columns that it lacks, or in which nothing is known, are left out."""
    present = [column for column in columns if _tells_something(frame, column.name)]
    if not present:
        return "There are no such rows."
    table = new_table(*(column.head for column in present))
    cells_of = [_cells(frame, column) for column in present]
    for column, cells, drawn_column in zip(present, cells_of, table.columns, strict=True):
        drawn_column.no_wrap, drawn_column.overflow = False, "fold"
        drawn_column.min_width = _least_width(column, cells)
        if column.shown is _word:
            drawn_column.justify = "left"
    for row in zip(*cells_of, strict=True):
        table.add_row(*row)
    return drawn(table, width)


def _least_width(column: Column, cells: Sequence[str]) -> int:
    """Where it is narrow, heads take several lines and long names fold, so that figures stay whole."""
    longest = max(map(len, cells))
    if column.shown is _word:
        longest = min(longest, _LEAST_WIDTH_OF_NAMES)
    return max(longest, *map(len, column.head.split()))


def _tells_something(frame: pd.DataFrame, name: str) -> bool:
    if name not in frame.columns:
        return False
    if name == "incarnation":
        return frame[name].nunique() > 1
    return bool((frame[name].notna() & (frame[name] != "")).any())


def _cells(frame: pd.DataFrame, column: Column) -> list[str]:
    return [_cell(value, column.shown) for value in frame[column.name].tolist()]


def _cell(value: Any, shown: Callable[[Any], str]) -> str:
    import pandas as pd

    return UNKNOWN if pd.isna(value) or value == "" else shown(value)


def _ms(value: float) -> str:
    return fixed(value, 3)


def _tenths(value: float) -> str:
    return fixed(value, 1)


def _hundredths(value: float) -> str:
    return fixed(value, 2)


def _gb_per_s(value: float) -> str:
    return f"{value:.3f}" if value >= 0.01 else f"{value:.1e}"


def _word(value: Any) -> str:
    return escape_text(str(value))


_WHOSE = Column("rank", "rank"), Column("incarnation", "run")
_EPOCH = Column("epoch", "epoch")
_OPERATION, _GROUP = Column("operation", "operation", _word), Column("group", "group", _word)


# -- where the time went, by anything ------------------------------------------------------------

_KEYS = {
    "operation": Column("operation", "operation", _word), "phase": Column("phase", "phase", _word),
    "layer_name": Column("layer_name", "layer", _word), "group": Column("group", "group", _word),
    "rank": _WHOSE[0], "incarnation": _WHOSE[1], "epoch": _EPOCH,
    "iteration": Column("iteration", "iteration"),
}  # fmt: skip

_TOTALS = (
    Column("count", "count"), Column("bytes", "bytes", size), Column("mean_ms", "mean ms", _ms),
    Column("p50_ms", "p50 ms", _ms), Column("p95_ms", "p95 ms", _ms), Column("p99_ms", "p99 ms", _ms),
    Column("max_ms", "max ms", _ms), Column("total_ms", "total ms", _tenths),
    Column("wall_share", "% wall", percent),
)  # fmt: skip


def totals_text(totals: pd.DataFrame, by: Sequence[str], width: int) -> str:
    """What ``analysis.summarize`` returned for ``by``."""
    return _page(table_text(totals, [*(_KEYS[name] for name in by), *_TOTALS], width))


# -- bandwidth -----------------------------------------------------------------------------------

_BANDWIDTH = (
    _OPERATION, _GROUP, Column("group_size", "ranks"), Column("size_class_bytes", "up to", size),
    Column("count", "rows"), Column("message_size_bytes", "bytes", size), Column("time_ms", "time", _ms),
    Column("algbw_gb_per_s", "algbw", _gb_per_s), Column("busbw_gb_per_s", "busbw", _gb_per_s),
    Column("transfer_ms", "transfer", _ms),
    Column("transfer_algbw_gb_per_s", "its algbw", _gb_per_s),
    Column("transfer_busbw_gb_per_s", "its busbw", _gb_per_s),
)  # fmt: skip


def bandwidth_text(bandwidth: pd.DataFrame, width: int) -> str:
    """What ``analysis.bandwidth`` returned; a narrow terminal has no room for algorithm bandwidths."""
    columns = [column for column in _BANDWIDTH if width >= _WIDE or "algbw" not in column.head]
    return _page(
        *_in_one_group(bandwidth, columns, width),
        *_wrapped(
            width,
            "Medians in ms; algbw and busbw in GB/s (1e9 bytes) as nccl-tests defines them, from the time "
            "that a rank spent, and from the transfer, which leaves out the wait for the last to arrive.",
        ),
    )


def _in_one_group(frame: pd.DataFrame, columns: Sequence[Column], width: int) -> Iterable[str]:
    """The table; a group that all rows have stands above it instead of in each."""
    groups = frame["group"].unique()
    if len(groups) == 1 and groups[0]:
        yield wrapped(f"Group {_word(groups[0])}", width)
        columns = [column for column in columns if column is not _GROUP]
    yield table_text(frame, columns, width)


# -- waits ---------------------------------------------------------------------------------------

_WAITS = (
    _OPERATION, _GROUP, *_WHOSE, Column("count", "count"), Column("wait_ms", "wait ms", _tenths),
    Column("clock_free_wait_ms", "clock-free ms", _tenths),
    Column("arrival_skew_ms", "skew p50 ms", _ms), Column("transfer_ms", "transfer p50 ms", _ms),
    Column("times_last", "times last"), Column("clock_violations", "violations"),
    Column("uncertainty_ms", "+- ms", _ms),
)  # fmt: skip


_MESSAGES = (
    _GROUP, Column("sender", "from"), Column("receiver", "to"), Column("count", "messages"),
    Column("bytes", "bytes", size), Column("send_ms", "send p50 ms", _ms),
    Column("receive_ms", "receive p50 ms", _ms), Column("late_sender_ms", "late sender ms", _tenths),
    Column("late_receiver_ms", "late receiver ms", _tenths), Column("clock_violations", "violations"),
    Column("uncertainty_ms", "+- ms", _ms),
)  # fmt: skip


def waits_text(totals: pd.DataFrame, messages: pd.DataFrame, states: Mapping[str, int], width: int) -> str:
    """Who waited for whom.

    Args:
        totals: what ``analysis.summarize_waits`` returned.
        messages: what ``analysis.summarize_messages`` returned.
        states: how many collectives are in each state of ``analysis.match_collectives``.
    """
    return _page(
        *_in_one_group(totals, _WAITS, width),
        *_wrapped(width, *_on_clocks(totals), *_on_matches(states)),
        *(_in_one_group(messages, _MESSAGES, width) if len(messages) else ()),
        *(_wrapped(width, _ON_MESSAGES) if len(messages) else ()),
    )


_ON_MESSAGES = (
    "late sender: how long receivers waited for the send to begin. late receiver: how long senders were in "
    "the send before the receive began."
)


def _on_clocks(totals: pd.DataFrame) -> Iterable[str]:
    yield (
        "wait: time before the last rank had arrived. clock-free: beyond what the quickest rank took, which "
        "compares no clocks. times last: how often this rank was the last to arrive."
    )
    uncertainty_ms = totals["uncertainty_ms"].max() if len(totals) else math.nan
    if len(totals) and math.isnan(uncertainty_ms):
        yield (
            "The ranks' clocks are not known to be aligned, so what compares their instants is left out: "
            "allreduce_instrumentation.synchronise_clocks() measures them."
        )


def _on_matches(states: Mapping[str, int]) -> Iterable[str]:
    if states.get("incomplete") or states.get("mismatched"):
        yield (
            f"Of {sum(states.values())} collectives {states.get('incomplete', 0)} are incomplete (a rank is "
            f"missing in them or did not finish) and {states.get('mismatched', 0)} do not fit together; "
            "they are left out above. analysis.match_collectives says which."
        )


# -- overlap ---------------------------------------------------------------------------------------

_OVERLAP = (
    *_WHOSE, _EPOCH, Column("iteration", "iteration"), Column("iterations", "steps"),
    Column("step_ms", "step ms", _ms), Column("compute_ms", "own work", _ms),
    Column("communication_ms", "communication", _ms), Column("exposed_ms", "exposed", _ms),
    Column("hidden_ms", "hidden", _ms), Column("overlap", "hidden %", percent),
    Column("waited_ms", "WAIT", _ms), Column("copy_ms", "copies", _ms),
)  # fmt: skip


def overlap_text(overlap: pd.DataFrame, efficiencies: pd.DataFrame, width: int) -> str:
    """What ``analysis.summarize_overlap`` or ``overlap``, and ``efficiencies``, returned."""
    return _page(
        table_text(overlap, _OVERLAP, width),
        *_wrapped(
            width,
            "ms per step, medians where steps are counted. Communication is exposed while the rank does no "
            "work of its own, and hidden while it does.",
            *_on_efficiencies(efficiencies),
        ),
    )


def _on_efficiencies(efficiencies: pd.DataFrame) -> Iterable[str]:
    for record in efficiencies.to_dict("records"):
        if not math.isnan(record["parallel_efficiency"]):
            yield (
                f"Parallel efficiency {record['parallel_efficiency']:.2f} = load balance "
                f"{record['load_balance']:.2f} x communication efficiency "
                f"{record['communication_efficiency']:.2f} (POP; 0.80 is acceptable)."
            )


# -- compression -----------------------------------------------------------------------------------

_COMPRESSION = (
    Column("layer_name", "layer", _word), Column("count", "count"), Column("dense_bytes", "dense", size),
    Column("sent_bytes", "sent", size), Column("saved_bytes", "saved", size),
    Column("compress_ms", "compress ms", _ms), Column("transfer_ms", "transfer ms", _ms),
    Column("decompress_ms", "decompress ms", _ms), Column("achieved_ms", "achieved ms", _ms),
    Column("dense_estimate_ms", "dense est. ms", _ms), Column("break_even", "break-even", _hundredths),
    Column("pays", "pays", lambda value: "yes" if value else "no"),
)  # fmt: skip


def compression_text(compression: pd.DataFrame, width: int) -> str:
    """What ``analysis.compression`` returned."""
    if not len(compression):
        return _page(wrapped("Nothing is compressed in these files: no layer has a COMPRESS row.", width))
    return _page(
        table_text(compression, _COMPRESSION, width),
        *_wrapped(
            width,
            "break-even = achieved / dense estimate: below 1 the compression pays. The estimate stands on "
            "the bus bandwidth of uncompressed allreduces in these files.",
            *_on_estimates(compression),
        ),
    )


def _on_estimates(compression: pd.DataFrame) -> Iterable[str]:
    unknown = compression["dense_estimate_ms"].isna()
    if unknown.any():
        layers = ", ".join(map(_word, compression["layer_name"][unknown][:5]))
        yield f"No uncompressed allreduce to estimate from: {layers}. Log some dense steps in the same run."
    far = compression[compression["extrapolated_by"] > 2]
    for record in far.to_dict("records"):
        yield (
            f"{_word(record['layer_name'])}: its estimate extrapolates the sizes measured by a factor of "
            f"{record['extrapolated_by']:.1f}."
        )


# -- stragglers ------------------------------------------------------------------------------------

_WINDOWS = (
    Column("rank", "rank"), Column("phase", "phase", _word), Column("labels", "role", _word),
    Column("kind", "window"), Column("first_epoch", "first epoch"), Column("first_iteration", "first"),
    Column("last_epoch", "last epoch"), Column("last_iteration", "last"),
    Column("iterations", "slow steps"), Column("ratio", "x peers", _hundredths),
    Column("score", "score", _hundredths), Column("cost_ms", "cost ms", _tenths),
)  # fmt: skip

_GATES = (
    Column("name", "gate"), Column("value", "value", _hundredths), Column("bound", "bound", _hundredths),
    Column("passed", "passed", lambda value: "yes" if value else "no"),
)  # fmt: skip

_MOST_WINDOWS = 12
_MOST_NAMED = 8


def stragglers_text(verdict: Verdict, windows: pd.DataFrame, width: int) -> str:
    """The verdict in words, what decided it, and the windows in which ranks were slower than their peers."""
    return _page(
        *_wrapped(width, verdict_sentence(verdict)),
        *_wrapped(width, *verdict.evidence),
        _gates_text(verdict, width),
        table_text(windows[:_MOST_WINDOWS], _WINDOWS, width) if len(windows) else "",
        f"... and {len(windows) - _MOST_WINDOWS} windows more." if len(windows) > _MOST_WINDOWS else "",
    )


def verdict_sentence(verdict: Verdict) -> str:
    """``Verdict: rank 2 is slow, in BACKWARD, in iterations 40 to 60 (bounded) ...``."""
    if not verdict.judged:
        return f"Verdict: nobody could be judged: {escape_text(verdict.why)}."
    ranks = ", ".join(map(str, verdict.ranks))
    who = {
        "healthy": f"healthy. Nobody is slow{_of_the_judged(verdict)}",
        "rank": f"rank {ranks} is slow" if len(verdict.ranks) == 1 else f"ranks {ranks} are slow",
        "role": f"the role {verdict.labels} is slower than the others (ranks {ranks})",
        "group-wide": "all ranks are slower than in their own past",
        "diffuse": "diffuse. Much time is lost to late ranks, but to nobody in particular",
    }[verdict.verdict]
    return f"Verdict: {escape_text(who)}{''.join(_particulars(verdict))}."


def _of_the_judged(verdict: Verdict) -> str:
    n_unknown = len(verdict.unjudged_ranks)
    if not n_unknown:
        return ""
    named = ", ".join(map(str, verdict.unjudged_ranks[:_MOST_NAMED]))
    more = f" and {n_unknown - _MOST_NAMED} more" if n_unknown > _MOST_NAMED else ""
    return f" of those that could be judged; not rank{'s' * (n_unknown > 1)} {named}{more}"


def _particulars(verdict: Verdict) -> Iterable[str]:
    if verdict.phase:
        yield f", in {escape_text(verdict.phase)}"
    if verdict.first_iteration is not None:
        window = f" ({verdict.window})" if verdict.window else ""
        yield f", in {verdict.when}{window}"
    if not math.isnan(verdict.score):
        yield f"; score {verdict.score:.2f}"
    if verdict.cost_ms > 0:
        yield f"; without it the recorded steps would take {verdict.cost_ms:.1f} ms less"


def _gates_text(verdict: Verdict, width: int) -> str:
    if not verdict.gates:
        return ""
    import pandas as pd

    return table_text(pd.DataFrame([gate._asdict() for gate in verdict.gates]), _GATES, width)


# -- how it was read ---------------------------------------------------------------------------------


def reading_text(engine: str, width: int, *, by_file: bool, n_blocks: int) -> str:
    """What read the rows, and how; "" for pandas with all of them in memory.

    Args:
        engine: "pandas", "duckdb" or "dask".
        by_file: whether files were taken one by one.
        n_blocks: of how many blocks of collectives the answer was made; 0 if of none.
    """
    how = ", file by file" if by_file else ""
    if n_blocks:
        how = f", in {count(n_blocks, 'block')} of collectives"
    if engine == "pandas" and not how:
        return ""
    return _page(wrapped(f"Read with --engine {engine}{how}.", width))


# -- the page ----------------------------------------------------------------------------------------


def _wrapped(width: int, *sentences: str) -> Iterable[str]:
    if sentences:
        yield "\n".join(wrapped(sentence, width) for sentence in sentences)


def _page(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
