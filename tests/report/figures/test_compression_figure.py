"""The figure of compression: a bar is as long as the break-even of its layer, and 1 is marked."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from drawn_figures import bars_of, lanes_from_top, said_instead, title_of
from rank_tables import as_polars, table
from timing_files import record

from timing_logger.analysis import compression
from timing_logger.record import Record
from timing_logger.report.figures import compression_figure

pytest.importorskip("plotly")

DENSE_BYTES = 1_000_000


def reduction(layer: str, seq: int, transfer_ms: float) -> list[Record]:
    """One rank's rows of a layer: 2 ms to compress, some to exchange, 4 ms to unpack."""
    parts = [
        ("COMPRESS", 2.0, DENSE_BYTES, None),
        ("ALLGATHER", transfer_ms, 10_000, seq),
        ("DECOMPRESS", 4.0, 40_000, None),
    ]
    return [
        record(name, seq + i, ms, phase="sparse", message_size_bytes=size, seq=number, layer_name=layer,
               group_size=2)
        for i, (name, ms, size, number) in enumerate(parts)
    ]  # fmt: skip


def dense(ms: float) -> Record:
    return record(
        "ALLREDUCE", 900, ms, message_size_bytes=DENSE_BYTES, seq=900, layer_name="full", group_size=2
    )


def run(*layers: str, dense_ms: float | None = 20.0) -> pd.DataFrame:
    """A run of two ranks; each layer's exchange takes 4 ms more than that of the one before."""
    rows = [row for at, layer in enumerate(layers) for row in reduction(layer, 5 * at, 6.0 + 4.0 * at)]
    rows += [] if dense_ms is None else [dense(dense_ms)]
    return table(rows, rows)


@pytest.fixture(scope="module")
def timings() -> pd.DataFrame:
    return run("first", "middle", "last", dense_ms=15.0)


@pytest.fixture(scope="module")
def figure(timings: pd.DataFrame) -> Any:
    return compression_figure(timings)


def test_a_bar_is_as_long_as_the_break_even_and_has_its_parts(timings: pd.DataFrame, figure: Any) -> None:
    layers, bars = compression(timings).set_index("layer_name"), bars_of(figure)
    sums = bars.groupby("lane")["length"].sum()
    assert sums.to_dict() == pytest.approx(layers["break_even"].to_dict())
    transfers = bars[bars["name"] == "transfer"].set_index("lane")["length"]
    expected = layers["transfer_ms"] / layers["dense_estimate_ms"]
    assert transfers.to_dict() == pytest.approx(expected.to_dict())
    assert len(sums) == 3


def test_layers_are_from_top_to_bottom_as_in_the_table(timings: pd.DataFrame, figure: Any) -> None:
    assert lanes_from_top(figure) == compression(timings)["layer_name"].tolist()


def test_the_line_is_where_compressing_takes_as_long_as_not(figure: Any) -> None:
    (line,) = figure.layout.shapes
    assert (line.x0, line.x1) == (1, 1)


def test_a_bar_says_whether_it_pays(timings: pd.DataFrame, figure: Any) -> None:
    pays = compression(timings).set_index("layer_name")["pays"]
    assert sorted(pays.tolist()) == [False, False, True]
    for bar in bars_of(figure).to_dict("records"):
        assert (", pays<br>" if pays[bar["lane"]] else ", does not pay<br>") in bar["says"]
        assert "uncompressed 15.000 ms" in bar["says"]


def test_the_title_counts_the_layers_in_which_it_pays(figure: Any) -> None:
    assert "Compression pays in 1 of 3 layers" in title_of(figure)


def test_times_of_another_run_can_stand_for_the_uncompressed_ones() -> None:
    figure = compression_figure(run("first", dense_ms=None), table([dense(24.0)], [dense(24.0)]))
    assert bars_of(figure)["length"].sum() == pytest.approx(12 / 24)


def test_without_any_uncompressed_reduction_the_figure_says_so() -> None:
    assert "uncompressed" in said_instead(compression_figure(run("first", dense_ms=None)))


def test_of_many_layers_those_with_most_time_are_drawn() -> None:
    figure = compression_figure(run(*(f"layer{at:02}" for at in range(25))))
    assert sorted(lanes_from_top(figure)) == [f"layer{at:02}" for at in range(5, 25)]
    assert "Of 25 layers these are the 20 with most time; 5 are left out" in title_of(figure)


def test_polars_gives_the_same_layers(timings: pd.DataFrame, figure: Any) -> None:
    pytest.importorskip("polars")
    assert compression_figure(as_polars(timings)).to_json() == figure.to_json()
