"""The text reports that answer a single question each: a table, and notes on how to read it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from timing_logger.analysis.rows.files import File
from timing_logger.report._diagnostics import on_different_runs, on_overlap, on_problems
from timing_logger.report._limits import MOST_LINES, MOST_SETS, ends_and_middle, on_left_out, worst_of
from timing_logger.report._text_tables import WHOSE, Column, table_text
from timing_logger.schema.record import TEXTS
from timing_logger.schema.timing_files import CALLED, KEYS
from timing_logger.words.units import (
    as_duration,
    as_gb_per_s,
    as_hundredths,
    as_ms,
    as_tenths,
    as_word,
    count,
    page,
    paragraph,
    percent,
    size,
    wrapped,
)

_EPOCH = Column("epoch", "epoch")
_OPERATION, _GROUP = Column("operation", "operation", as_word), Column("group", "group", as_word)

# -- where the time went, by anything ------------------------------------------------------------

_KEYS = {name: Column(name, CALLED.get(name, name), as_word if name in TEXTS else str) for name in KEYS}

_TOTALS = (
    Column("count", "count"), Column("bytes", "bytes", size), Column("mean_ms", "mean ms", as_ms),
    Column("p50_ms", "p50 ms", as_ms), Column("p95_ms", "p95 ms", as_ms), Column("p99_ms", "p99 ms", as_ms),
    Column("max_ms", "max ms", as_ms), Column("total_ms", "total ms", as_tenths),
    Column("wall_share", "% wall", percent),
)  # fmt: skip


def totals_text(totals: pd.DataFrame, by: Sequence[str], width: int, *, everything: bool = True) -> str:
    """Return the report on what ``analysis.summarize`` returned for ``by``; of many ranks those with most."""
    shown = worst_of(totals, totals["total_ms"], everything or "rank" not in by)
    return page(
        table_text(shown, [*(_KEYS[name] for name in by), *_TOTALS], width),
        *paragraph(width, *on_left_out(len(totals), len(shown), "rows", "with most total time")),
    )


# -- bandwidth -----------------------------------------------------------------------------------

_BANDWIDTH = (
    _OPERATION, _GROUP, Column("group_size", "ranks"), Column("size_class_bytes", "up to", size),
    Column("count", "rows"), Column("message_size_bytes", "bytes", size),
    Column("share_of_expected", "of expected", percent), Column("time_ms", "time", as_duration),
    Column("busbw_gb_per_s", "busbw GB/s", as_gb_per_s), Column("transfer_ms", "transfer", as_duration),
    Column("transfer_busbw_gb_per_s", "its busbw GB/s", as_gb_per_s),
    Column("algbw_gb_per_s", "algbw GB/s", as_gb_per_s),
    Column("transfer_algbw_gb_per_s", "its algbw GB/s", as_gb_per_s),
)  # fmt: skip
_MOST_EXPECTATIONS = 3


def bandwidth_text(
    bandwidth: pd.DataFrame, width: int, *, everything: bool = True, benchmark: str = ""
) -> str:
    """Return the report on ``analysis.bandwidth``; of many groups those that are slowest for their sizes.

    Args:
        bandwidth: what that returned, with the columns of ``with_expectation`` if there is a benchmark.
        width: columns of the terminal.
        everything: whether to show all groups.
        benchmark: the name of the benchmark.
    """
    few = bandwidth["group"].nunique() <= MOST_SETS
    shown = worst_of(bandwidth, -of_the_fastest(bandwidth), everything or few)
    return page(
        *_in_one_group(shown, _BANDWIDTH, width),
        *paragraph(
            width,
            *on_left_out(len(bandwidth), len(shown), "rows", SLOWEST_FOR_THEIR_SIZE),
            "Medians; algbw and busbw as nccl-tests defines them (1 GB is 1e9 bytes), from the time that a "
            "rank spent, and from the transfer, which leaves out the wait for the last to arrive.",
            *on_expectation(bandwidth, benchmark),
        ),
    )


def on_expectation(bandwidth: pd.DataFrame, benchmark: str) -> Iterable[str]:
    """Yield how much of what a benchmark reached the rows reached in which most time was spent.

    Args:
        bandwidth: what ``analysis.bandwidth`` returned, with the columns of ``with_expectation``.
        benchmark: the name of the benchmark; "" if there is none.
    """
    if not benchmark:
        return
    known = bandwidth[bandwidth["share_of_expected"].notna()]
    if not len(known):
        yield f"Nothing here is an operation and a size that {benchmark} measured."
        return
    longest = (known["count"] * known["time_ms"]).sort_values(ascending=False, kind="stable").index
    for row in known.loc[longest[:_MOST_EXPECTATIONS]].to_dict("records"):
        in_group = f" in {as_word(row['group'])}" if row["group"] else ""
        yield (
            f"{as_word(row['operation'])} of {size(row['message_size_bytes'])}{in_group}: "
            f"{row['share_of_expected']:.0%} of what {benchmark} reached at this size."
        )
    yield (
        "of expected: the bus bandwidth of the transfer, or else of the time spent, divided by that of "
        f"{benchmark}, between sizes that it measured; blank outside of them."
    )


SLOWEST_FOR_THEIR_SIZE = "that are slowest beside other groups with the same operation and size"


def of_the_fastest(bandwidth: pd.DataFrame) -> pd.Series[float]:
    """Return the bus bandwidth of each row as a fraction of the fastest one's with its operation and size.

    By bandwidth alone the smallest messages would be the slowest, always.
    """
    alike = bandwidth.groupby(["operation", "size_class_bytes"], dropna=False)["busbw_gb_per_s"]
    return bandwidth["busbw_gb_per_s"] / alike.transform("max")


def _in_one_group(frame: pd.DataFrame, columns: Sequence[Column], width: int) -> Iterable[str]:
    """Yield the table; a group that all rows share is named above it instead of in each row."""
    groups = frame["group"].unique()
    if len(groups) == 1 and groups[0]:
        yield wrapped(f"Group {as_word(groups[0])}", width)
        columns = [column for column in columns if column is not _GROUP]
    yield table_text(frame, columns, width)


# -- waits ---------------------------------------------------------------------------------------

_WAITS = (
    _OPERATION, _GROUP, *WHOSE, Column("count", "count"), Column("wait_ms", "wait ms", as_tenths),
    Column("clock_free_wait_ms", "clock-free ms", as_tenths),
    Column("arrival_skew_ms", "skew p50 ms", as_ms), Column("transfer_ms", "transfer p50 ms", as_ms),
    Column("times_last", "times last"), Column("clock_violations", "violations"),
    Column("uncertainty_ms", "+- ms", as_ms),
)  # fmt: skip


_MESSAGES = (
    _GROUP, Column("sender", "from"), Column("receiver", "to"), Column("count", "messages"),
    Column("bytes", "bytes", size), Column("send_ms", "send p50 ms", as_ms),
    Column("receive_ms", "receive p50 ms", as_ms), Column("late_sender_ms", "late sender ms", as_tenths),
    Column("late_receiver_ms", "late receiver ms", as_tenths), Column("clock_violations", "violations"),
    Column("uncertainty_ms", "+- ms", as_ms),
)  # fmt: skip


def waits_text(
    totals: pd.DataFrame,
    messages: pd.DataFrame,
    states: Mapping[str, int],
    width: int,
    *,
    everything: bool = True,
) -> str:
    """Return the report on how long ranks waited in each operation.

    Args:
        totals: what ``analysis.summarize_waits`` returned.
        messages: what ``analysis.summarize_messages`` returned.
        states: the number of collectives in each state of ``analysis.match_collectives``.
        width: columns of the terminal.
        everything: whether to show all ranks, instead of those that waited least and most in each of the
            operations with most waiting, and all pairs of ranks, instead of those with most waiting.
    """
    waited_ms = messages[["late_sender_ms", "late_receiver_ms"]].sum(axis=1)
    pairs = worst_of(messages, waited_ms, everything)
    shown = totals if everything else _least_and_most(totals)
    on_pairs: tuple[str, ...] = ()
    if len(messages):
        left_out = on_left_out(len(messages), len(pairs), "pairs of ranks", "with most waiting")
        on_pairs = *_in_one_group(pairs, _MESSAGES, width), *paragraph(width, *left_out, _ON_MESSAGES)
    return page(
        *_in_one_group(shown, _WAITS, width),
        *paragraph(width, *_on_rows_left_out(totals, shown), *_on_clocks(totals), *_on_matches(states)),
        *on_pairs,
    )


def _least_and_most(totals: pd.DataFrame) -> pd.DataFrame:
    """Return of each operation and group with many ranks those that waited least and most, and the middle."""
    by = "wait_ms" if totals["wait_ms"].notna().any() else "clock_free_wait_ms"
    groups = totals.groupby(["operation", "group"], sort=False)
    is_many = totals["rank"].nunique() > MOST_LINES
    longest = set(groups[by].sum().sort_values(ascending=False, kind="stable").index[:MOST_SETS])
    chosen = [
        record
        for name, rows in groups
        if not is_many or name in longest
        for record in ends_and_middle(rows.to_dict("records"), by)
    ]
    return totals if len(chosen) == len(totals) else pd.DataFrame(chosen)


def _on_rows_left_out(totals: pd.DataFrame, shown: pd.DataFrame) -> Iterable[str]:
    if len(shown) == len(totals):
        return
    yield (
        f"Of {totals['rank'].nunique():,} ranks each operation shows the two that waited least, the middle "
        "one, and the two that waited most; the others are left out. --all shows all."
    )
    n_sets, n_shown = (len(frame[["operation", "group"]].drop_duplicates()) for frame in (totals, shown))
    yield from on_left_out(n_sets, n_shown, "operations of groups", "with most waiting")


_ON_MESSAGES = (
    "late sender: how long receivers waited for the send to begin. late receiver: how long senders were in "
    "the send, or waited for it, before the receive began."
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
    if violations := int(totals["clock_violations"].sum()):
        yield (
            f"{count(violations, 'row')} ended before a rank had come that it needed: a clock is farther off "
            "than is stated, or the rows are not of one collective."
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
    *WHOSE, _EPOCH, Column("iteration", "iteration"), Column("iterations", "steps"),
    Column("step_ms", "step ms", as_ms), Column("compute_ms", "own work", as_ms),
    Column("communication_ms", "communication", as_ms), Column("exposed_ms", "exposed", as_ms),
    Column("hidden_ms", "hidden", as_ms), Column("overlap", "hidden %", percent),
    Column("waited_ms", "WAIT", as_ms), Column("copy_ms", "copies", as_ms),
)  # fmt: skip


def overlap_text(
    overlap: pd.DataFrame, efficiencies: pd.DataFrame, width: int, *, everything: bool = True
) -> str:
    """Return the report on exposed and hidden communication.

    Args:
        overlap: what ``analysis.summarize_overlap`` or ``overlap`` returned.
        efficiencies: what ``analysis.efficiencies`` returned.
        width: columns of the terminal.
        everything: whether to show all rows, instead of those with most exposed communication.
    """
    shown = worst_of(overlap, overlap["exposed_ms"], everything)
    return page(
        table_text(shown, _OVERLAP, width),
        *paragraph(
            width,
            *on_left_out(len(overlap), len(shown), "rows", "with most exposed communication"),
            "ms per step, medians where steps are counted. Communication is exposed while the rank does no "
            "work of its own, and hidden while it does. A step lasts until the next one begins.",
            *on_overlap(overlap),
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
    Column("layer_name", "layer", as_word), Column("pays", "pays", lambda value: "yes" if value else "no"),
    Column("break_even", "break-even", as_hundredths), Column("achieved_ms", "achieved ms", as_ms),
    Column("dense_estimate_ms", "dense est. ms", as_ms), Column("compress_ms", "compress ms", as_ms),
    Column("transfer_ms", "transfer ms", as_ms), Column("decompress_ms", "decompress ms", as_ms),
    Column("count", "count"), Column("dense_bytes", "dense", size), Column("sent_bytes", "sent", size),
)  # fmt: skip


def compression_text(compression: pd.DataFrame, width: int) -> str:
    """Return the report on ``analysis.compression``."""
    if not len(compression):
        return page(wrapped("Nothing is compressed in these files: no layer has a COMPRESS row.", width))
    return page(
        table_text(compression, _COMPRESSION, width),
        *paragraph(
            width,
            "break-even = achieved / dense estimate: below 1 the compression pays. Both are means, as total "
            "times decide. The estimate stands on how long uncompressed allreduces took.",
            *_on_estimates(compression),
        ),
    )


def _on_estimates(compression: pd.DataFrame) -> Iterable[str]:
    unknown = compression["dense_estimate_ms"].isna()
    if unknown.any():
        layers = ", ".join(map(as_word, compression["layer_name"][unknown][:5]))
        yield (
            f"No finished, uncompressed allreduce among as many ranks to estimate from: {layers}. Log some "
            "dense steps in the same run."
        )
    far = compression[compression["extrapolated_by"] > 2]
    for record in far.to_dict("records"):
        yield (
            f"{as_word(record['layer_name'])}: its estimate extrapolates the sizes measured by a factor of "
            f"{record['extrapolated_by']:.1f}."
        )


# -- how it was read -------------------------------------------------------------------------------------


def different_runs_text(why: str, width: int) -> str:
    """Return the warning that the files are of different runs, for the reason ``why``; "" without one."""
    return page(*paragraph(width, *on_different_runs(why))) if why else ""


def clocks_text(files: Iterable[File], width: int) -> str:
    """Return warnings about clocks that were stepped and about implausible sidecars; "" if there are none."""
    said = list(on_problems(files))
    return page(*paragraph(width, *said)) if said else ""


def reading_text(engine: str, width: int, *, by_file: bool) -> str:
    """Return a note on how the rows were read; "" for pandas with all of them in memory.

    Args:
        engine: "pandas", "pyarrow" or "cluster".
        by_file: whether files were read in batches, and not all rows held.
    """
    how = ", batch by batch" if by_file else ""
    if engine == "pandas" and not how:
        return ""
    by_whom = "by the workers of the scheduler" if engine == "cluster" else f"with --engine {engine}"
    return page(wrapped(f"Read {by_whom}{how}.", width))
