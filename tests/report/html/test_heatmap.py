"""The heatmap of the HTML report: what its cells are, in what order, and which of them are framed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from page_data import unpacked
from simulated_runs import data_parallel, factors, pipeline

from timing_logger.analysis import overlap, stragglers
from timing_logger.analysis.verdict.verdict import map_judgement, reduce_judgement
from timing_logger.report.html import _heatmap, _heatmap_grid
from timing_logger.report.html._crowd import OwnTimes
from timing_logger.report.html._findings import COLLECTIVES, Findings
from timing_logger.report.html._heatmap import MANY_ROWS, Heatmap, heatmap

MAX_COLUMNS = 60
"""The most columns of a heatmap in tests of these."""


def data_of(drawn: Heatmap) -> Any:
    assert drawn.data is not None
    return drawn.data


def cells_of(drawn: Heatmap, name: str) -> Any:
    """The cells of a view, rows x columns."""
    data = data_of(drawn)
    view = next(view for view in data["views"] if view["name"] == name)
    return unpacked(view["ms"]).reshape(len(data["rows"]), -1)


@pytest.fixture(scope="module")
def intermittent() -> pd.DataFrame:
    """A run of which one rank is slow now and then, of twice as many steps as there are columns in tests."""
    slow = factors(2 * MAX_COLUMNS, 4, noise=0.02)
    slow[5::9, 1] *= 3
    return data_parallel(slow)


@pytest.fixture(scope="module")
def found(intermittent: pd.DataFrame) -> Findings:
    return Findings.of(intermittent)


def found_as(found: Findings, timings: pd.DataFrame) -> Findings:
    """The found ones, but for all that a heatmap of a few ranks is drawn from, which is of these timings."""
    judgement = reduce_judgement([map_judgement(timings)])
    return replace(
        found,
        verdict=judgement.verdict,
        own=OwnTimes.of(judgement),
        overlap=overlap(timings),
        waits=COLLECTIVES.of(timings).waits,
    )


# -- cells ---------------------------------------------------------------------------------------------


@pytest.fixture
def few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_heatmap_grid, "MAX_COLUMNS", MAX_COLUMNS)


@pytest.mark.usefixtures("few_columns")
def test_a_cell_of_the_heatmap_is_the_mean_of_its_iterations(
    intermittent: pd.DataFrame, found: Findings
) -> None:
    reduced = intermittent[intermittent["operation"] == "ALLREDUCE"].pivot(
        index="rank", columns="iteration", values="elapsed_ms"
    )
    waited = (reduced - reduced.min()).to_numpy(float)
    cells = cells_of(heatmap(found), "Waiting for others")
    np.testing.assert_allclose(cells, waited.reshape(4, MAX_COLUMNS, 2).mean(axis=2), rtol=1e-5, atol=1e-6)


def test_iterations_that_one_rank_lacks_are_unknown_and_not_nothing(found: Findings) -> None:
    timings = data_parallel(factors(4, 2))
    lacking = timings[(timings["rank"] == 0) | (timings["iteration"] != 2)]
    unknown = np.isnan(cells_of(heatmap(found_as(found, lacking)), "Own work"))
    assert unknown.tolist() == [[False] * 4, [False, False, True, False]]


def check_first_view(found: Findings, *, from_gaps: bool) -> None:
    drawn = heatmap(found)
    assert drawn.views[0].name == "Own time (judged)"
    assert found.own.from_gaps == from_gaps
    assert ("between its communication" in drawn.views[0].explanation) == from_gaps
    np.testing.assert_allclose(cells_of(drawn, "Own time (judged)"), found.own.ms.T, rtol=1e-6)


def test_the_first_view_is_the_times_that_the_verdict_compared(found: Findings) -> None:
    check_first_view(found, from_gaps=False)


@pytest.mark.slow("of gaps; that the first view is what the verdict compared is quick")
def test_the_first_view_is_the_times_that_the_verdict_compared_if_those_are_gaps(found: Findings) -> None:
    slow = factors(60, 4, noise=0.05)
    slow[:, 2] *= 2
    of_gaps = found_as(found, data_parallel(slow, logged=["FORWARD", "ALLREDUCE"]))
    check_first_view(of_gaps, from_gaps=True)


def test_nothing_is_called_judged_where_nothing_could_be_judged(found: Findings) -> None:
    assert heatmap(found_as(found, data_parallel(factors(30, 1)))).views[0].name == "Own time"


@pytest.mark.slow("of restarts; what a cell is and which are unknown is quick")
def test_own_time_that_two_runs_of_a_rank_recorded_is_that_of_the_latest(found: Findings) -> None:
    first = data_parallel(factors(30, 2))
    again = first[(first["rank"] == 1) & (first["iteration"] >= 20)]
    again = again.assign(
        incarnation=2, start_counter=again["start_counter"] + 100, end_counter=again["end_counter"] + 100
    )
    drawn = heatmap(found_as(found, pd.concat([first, again], ignore_index=True)))
    assert data_of(drawn)["rows"] == ["rank 0", "rank 1", "rank 1, run 2"]
    known = ~np.isnan(cells_of(drawn, "Own time (judged)"))
    assert [np.flatnonzero(row).tolist() for row in known] == [
        list(range(30)), list(range(20)), list(range(20, 30)),
    ]  # fmt: skip


# -- what is framed ------------------------------------------------------------------------------------


def test_of_an_intermittent_rank_only_the_slow_iterations_are_framed(found: Findings) -> None:
    framed = data_of(heatmap(found))["slow"]
    assert framed == {"rows": [1], "frames": [[1, at, at] for at in range(5, 2 * MAX_COLUMNS, 9)]}


@pytest.mark.slow("several slow ranks; the frames of one are quick")
def test_each_of_several_slow_ranks_has_frames_of_its_own(found: Findings) -> None:
    slow = factors(100, 8, noise=0.02)
    slow[10:50, 1] *= 3
    slow[60:90, 6] *= 2
    framed = data_of(heatmap(found_as(found, data_parallel(slow))))["slow"]
    assert framed == {"rows": [1, 6], "frames": [[1, 10, 49], [6, 60, 89]]}


@pytest.mark.usefixtures("few_columns")
def test_where_a_column_stands_for_several_iterations_it_is_framed_if_one_of_them_is_slow(
    found: Findings,
) -> None:
    framed = data_of(heatmap(found))["slow"]
    columns = sorted({at // 2 for at in range(5, 2 * MAX_COLUMNS, 9)})
    assert [frame[1:] for frame in framed["frames"]] == [[at, at] for at in columns]


@pytest.mark.slow("framed as a slow rank is; the frames of that are quick")
def test_a_rank_that_is_only_suspected_is_marked_and_framed(found: Findings) -> None:
    slow = factors(120, 3, noise=0.03, seed=7) * [1.0, 1.0, 1.15]
    slow[::3, 1] *= 2
    suspecting = found_as(found, data_parallel(slow))
    assert (suspecting.verdict.verdict, suspecting.verdict.window) == ("suspect", "intermittent")
    framed = data_of(heatmap(suspecting))["slow"]
    assert framed == {"rows": [1], "frames": [[1, at, at] for at in range(0, 120, 3)]}


@pytest.mark.slow("a rarer kind of verdict; the frames of a slow rank are quick")
def test_the_ranks_of_a_slow_role_are_framed_in_its_range(found: Findings) -> None:
    slow = factors(60, 4, noise=0.02)
    slow[20:50, 2:] *= 2
    timings, roles = pipeline(slow, 2)
    verdict = stragglers(timings, roles=roles)
    assert (verdict.verdict, verdict.ranks) == ("role", (2, 3))
    framed = data_of(heatmap(replace(found, verdict=verdict, own=found.own._replace(slow={}))))["slow"]
    assert framed == {"rows": [2, 3], "frames": [[2, 20, 49], [3, 20, 49]]}


def test_in_a_healthy_run_nothing_is_marked(found: Findings) -> None:
    healthy = found_as(found, data_parallel(factors(60, 4, noise=0.05)))
    assert data_of(heatmap(healthy))["slow"] == {"rows": [], "frames": []}


# -- the order of the rows -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found_of_many(found: Findings) -> Findings:
    """Of a run with more rows than leave the named rank in its place."""
    slow = factors(40, MANY_ROWS + 1, noise=0.02)
    slow[:, 11] *= 2
    return found_as(found, data_parallel(slow))


@pytest.mark.parametrize(("many", "first"), [(MANY_ROWS + 1, "rank 0"), (MANY_ROWS, "rank 11")])
def test_of_many_ranks_the_named_one_comes_first(
    found_of_many: Findings, many: int, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_heatmap, "MANY_ROWS", many)
    drawn = heatmap(found_of_many)
    data = data_of(drawn)
    assert data["rows"][0] == first
    at = data["rows"].index("rank 11")
    assert data["slow"] == {"rows": [at], "frames": [[at, 0, 39]]}
    assert np.median(cells_of(drawn, "Own time (judged)"), axis=1).argmax() == at
