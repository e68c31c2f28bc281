"""The figure of where the time went: a bar of each rank's wall time, which sums to 100%."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from narwhals.typing import IntoDataFrameT

from timing_logger.analysis import account
from timing_logger.report._account_figures import AccountFigures
from timing_logger.report.account_text import on_the_unmatched
from timing_logger.report.figures._colours import marker
from timing_logger.report.figures._drawing import HOVER, empty, graph_objects, lanes, text
from timing_logger.report.figures._tables import in_pandas, main_lines
from timing_logger.report.html._account import AccountBar, Segment, account_bars
from timing_logger.report.html._time_kinds import TimeKinds

if TYPE_CHECKING:
    import plotly.graph_objects as go


def account_figure(timings: IntoDataFrameT) -> go.Figure:
    """Draw where the time of each rank went: a bar of parts that sum to 100% of its wall time.

    The parts are those of :func:`timing_logger.analysis.account`: own work by operation, code that no row
    times, transfers, waiting by the rank waited for (hatched), and communication that was not matched. The
    three operations with most time have a shade of their own, and the three ranks waited for most. Of more
    than 16 ranks those have a bar that were waited for most and that waited most, and the others one
    together; the last bar is of all ranks.

    Args:
        timings: as ``read_timings`` returns.

    Returns:
        The figure; one that says so if no row has instants.

    Raises:
        ConfigurationError: plotly is not installed.
        TableError: the timings have no column ``rank``.
    """
    table = in_pandas(account(timings))
    figures = AccountFigures.of(table)
    main = main_lines(table)
    if not len(figures.ranks):
        return empty("Where the time went", "no time that could be accounted for")
    kinds = TimeKinds.of(main)
    bars = list(account_bars(figures, main.assign(kind=kinds.of_rows(main)), kinds))
    labels = [bar.label for bar in bars]
    notes = [*_on_ranks_left_out(figures, labels), *on_the_unmatched(figures)]
    return lanes(
        _traces(bars, kinds.names), _title(figures), notes, "part of the rank's wall time, in %", labels,
        barmode="stack", xaxis={"range": [0, 100], "ticksuffix": "%"},
    )  # fmt: skip


def _title(figures: AccountFigures) -> str:
    """Return how much of all time was work, and how much waiting, with for whom most of it was."""
    (shares,) = figures.in_all().to_dict("records")
    whom = figures.by_whom().dropna(subset="waited_for").head(1)["waited_for"].tolist()
    waited = f", {shares['waiting']} waiting, most of it for rank {whom[0]}" if whom else ""
    return f"Where the time went: {shares['own work']} own work{waited}"


def _traces(bars: Sequence[AccountBar], names: Mapping[str, str]) -> Iterator[Any]:
    """Yield the parts of each kind, in the order of the legend; a bar without such a part has 0 of it."""
    of_bars = [{part.kind: part for part in bar.segments} for bar in bars]
    for kind, name in names.items():
        its = [parts.get(kind, Segment(kind, name, 0.0, "0.0 ms")) for parts in of_bars]
        if any(part.length for part in its):
            yield graph_objects().Bar(
                orientation="h",
                name=text(name),
                y=[bar.label for bar in bars],
                x=[part.length for part in its],
                marker=marker(kind),
                hovertext=[
                    f"{bar.label}: {text(name)} {part.length:.1f}%, {part.time}"
                    for bar, part in zip(bars, its, strict=True)
                ],
                hovertemplate=HOVER,
            )


def _on_ranks_left_out(figures: AccountFigures, labels: Sequence[str]) -> Iterator[str]:
    """Yield the sentence that says how many ranks have no bar of their own."""
    n_alone = sum(label.startswith("rank ") for label in labels)
    n_ranks = len(figures.ranks)
    if n_alone < n_ranks:
        yield (
            f"Of {n_ranks:,} ranks {n_alone} have a bar each: those that were waited for most, and those "
            f"that waited most. The other {n_ranks - n_alone:,} have one together."
        )
