"""The page of a run of many ranks: it does not grow with them, and says of each thing what it leaves out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from crowds import SLOW, crowd, data_in
from many_ranks import write_many_ranks
from page_data import unpacked
from small_run import visible_text

from timing_logger.analysis import RunEnd, Verdict, overlap
from timing_logger.analysis.verdict.overview import compare_counters
from timing_logger.engine.rows import Query
from timing_logger.reading.timings import read_timings, timing_files
from timing_logger.report._limits import (
    BANDS,
    FEW_PROCESSES,
    HOST_MATES,
    HOST_ROWS,
    MOST_LINES,
    POINTS_OF_MANY,
    REFERENCES,
    at_distances,
)
from timing_logger.report.html import _heatmap, _timeline, report_html
from timing_logger.report.html._accounting import clocks_table, files_table, what_is_unknown
from timing_logger.report.html._charts import overlap_chart
from timing_logger.report.html._crowd import Crowd
from timing_logger.report.html._findings import Findings, findings_in_files
from timing_logger.report.html._heatmap import heatmap
from timing_logger.report.html._scatter import bandwidth_chart
from timing_logger.report.html.page import write_findings

N_RANKS = 280  # on more hosts than have a row
N_STEPS = 6
MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def run() -> pd.DataFrame:
    return crowd(N_RANKS, N_STEPS)


@pytest.fixture(scope="module")
def found(run: pd.DataFrame) -> Findings:
    return Findings.of(run)


def written(found: Findings, folder: Path) -> str:
    """The page of what was found."""
    write_findings(found, folder / "page.html")
    return (folder / "page.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(found: Findings, tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(found, tmp_path_factory.mktemp("page"))


def with_files(found: Findings, files: list[dict[str, Any]]) -> Findings:
    """The findings, had that been known of the files."""
    return replace(found, summary=found.summary._replace(files=files, counters=compare_counters(files)))


def words(page: str) -> str:
    """The text of a page in one line."""
    return " ".join(visible_text(page).split())


def lanes_in(page: str) -> list[tuple[str, str]]:
    return [(lane["rank"], lane["role"]) for lane in data_in(page)["timeline"]["lanes"]]


# -- its size ------------------------------------------------------------------------------------------


@pytest.mark.slow("what limits the parts of a page is tested part by part, with lower limits")
@pytest.mark.parametrize(("n_ranks", "n_steps"), [(2000, 3), (100, 500)], ids=["ranks", "steps"])
def test_a_page_of_many_ranks_or_steps_stays_below_3_MB(n_ranks: int, n_steps: int) -> None:
    assert len(report_html(crowd(n_ranks, n_steps))) < MOST_BYTES


@pytest.mark.slow("a second page; how many rows each table leaves out is quick")
def test_the_page_of_more_ranks_has_no_more_rows_in_any_table(page: str, tmp_path: Path) -> None:
    of_80 = written(Findings.of(crowd(80, 6)), tmp_path)
    assert page.count("<tr>") <= of_80.count("<tr>")


def test_what_many_files_lack_is_said_once(found: Findings) -> None:
    files = crowd(N_RANKS, 1).attrs["files"]
    for file in files[:30]:
        file["sidecar"] = None
    said = what_is_unknown(with_files(found, files))
    (sentence,) = [one for one in said if "no sidecar" in one]
    assert "30 files, such as timing-rank0.csv: no sidecar" in sentence


@pytest.mark.slow("that it is said once is tested above on the sentences of the page")
@pytest.mark.parametrize("n_files", [30, 100])
def test_what_many_files_lack_is_once_on_the_page(n_files: int) -> None:
    timings = crowd(100, 3)
    for file in timings.attrs["files"][:n_files]:
        file["sidecar"] = None
    text = words(report_html(timings))
    assert f"{n_files} files, such as timing-rank0.csv: no sidecar" in text
    assert text.count("no sidecar") == 1


# -- the heatmap ---------------------------------------------------------------------------------------


def rows_of(found: Findings) -> Any:
    data = heatmap(found).data
    assert data is not None
    return data


def test_of_many_ranks_the_worst_have_a_row_and_the_named_one_is_the_first(found: Findings) -> None:
    data = rows_of(found)
    assert data["rows"][0] == f"rank {SLOW}"
    assert [section["n_rows"] for section in data["sections"]] == [FEW_PROCESSES, HOST_ROWS, len(BANDS)]
    assert sum(name.startswith("rank ") for name in data["rows"]) == FEW_PROCESSES
    assert data["slow"] == {"rows": [0], "frames": [[0, 0, N_STEPS - 1]]}


def test_up_to_64_ranks_all_have_a_row_and_nothing_is_said_of_others(found: Findings) -> None:
    few, own = range(FEW_PROCESSES), found.own
    alone = replace(
        found,
        overlap=found.overlap[found.overlap["rank"].isin(few)],
        waits=found.waits[found.waits["rank"].isin(few)],
        own=own._replace(ranks=list(few), ms=own.ms[:, :FEW_PROCESSES], slow={}),
        verdict=Verdict(verdict="healthy"),
        crowd=Crowd(FEW_PROCESSES, tuple(few), 0, {}),
    )
    drawn = heatmap(alone)
    assert drawn.data is not None
    assert drawn.data["rows"] == [f"rank {rank}" for rank in range(FEW_PROCESSES)]
    assert "sections" not in drawn.data
    assert drawn.left_out == ""


def cells(found: Findings) -> Any:
    """The first view: rows x columns."""
    data = rows_of(found)
    return unpacked(data["views"][0]["ms"]).reshape(len(data["rows"]), -1)


def named_in(found: Findings) -> list[int]:
    return [int(name.split()[1]) for name in rows_of(found)["rows"] if name.startswith("rank ")]


def test_the_row_of_a_host_is_the_mean_of_its_ranks_without_a_row_of_their_own(found: Findings) -> None:
    data, named = rows_of(found), set(named_in(found))
    host, n_ranks = re.fullmatch(r"node(\d+) \((\d+)\)", data["rows"][FEW_PROCESSES]).groups()
    its = [rank for rank in range(8 * int(host), 8 * int(host) + 8) if rank not in named]
    assert len(its) == int(n_ranks)
    np.testing.assert_allclose(cells(found)[FEW_PROCESSES], found.own.ms.T[its].mean(axis=0), rtol=1e-6)


def test_the_bands_reach_from_the_shortest_to_the_longest_of_all_other_ranks(found: Findings) -> None:
    named = set(named_in(found))
    others = [rank for rank in range(N_RANKS) if rank not in named]
    theirs = found.own.ms.T[others]
    bands = cells(found)[-len(BANDS) :]
    np.testing.assert_allclose(bands[0], theirs.max(axis=0), rtol=1e-6)
    np.testing.assert_allclose(bands[-1], theirs.min(axis=0), rtol=1e-6)
    np.testing.assert_allclose(bands[2], np.sort(theirs, axis=0)[round(0.5 * (len(others) - 1))], rtol=1e-6)


def test_one_slow_step_of_a_rank_without_a_row_is_seen_in_the_bands(found: Findings) -> None:
    named = set(named_in(found))
    hidden = next(rank for rank in range(N_RANKS) if rank not in named)
    ms = found.own.ms.copy()
    ms[3, hidden] = 10_000.0
    changed = replace(found, own=found.own._replace(ms=ms))
    assert cells(changed)[-len(BANDS)].argmax() == 3
    assert cells(changed)[-len(BANDS), 3] == 10_000.0


def test_the_page_says_how_many_ranks_have_no_row_of_their_own(page: str) -> None:
    assert f"Of {N_RANKS} ranks {FEW_PROCESSES} have a row of their own" in words(page)
    assert f"The other {N_RANKS - FEW_PROCESSES} are shown by the mean of each of the {HOST_ROWS}" in words(
        page
    )


def test_a_run_without_hosts_has_bands_and_no_rows_of_hosts(found: Findings) -> None:
    files = crowd(N_RANKS, 1, host="").attrs["files"]
    summary = found.summary._replace(files=files)
    without = Crowd.of(summary, found.verdict, found.own)
    data = rows_of(replace(found, summary=summary, crowd=without))
    assert [section["n_rows"] for section in data["sections"]] == [FEW_PROCESSES, len(BANDS)]


def test_a_heatmap_of_many_ranks_has_fewer_columns(monkeypatch: pytest.MonkeyPatch, found: Findings) -> None:
    monkeypatch.setattr(_heatmap, "CELLS_OF_MANY", N_STEPS // 2 * (FEW_PROCESSES + HOST_ROWS + len(BANDS)))
    assert heatmap(found).per_column == 2
    assert cells(found).shape[1] == N_STEPS // 2


# -- the order -----------------------------------------------------------------------------------------


def crowd_of(found: Findings, **changed: Any) -> Crowd:
    return Crowd.of(found.summary, replace(found.verdict, **changed), found.own)


def test_the_ranks_that_explain_a_hang_come_first_too(found: Findings) -> None:
    end = RunEnd(state="hang", culprits=(200,), gone=(5,), sentences=("Rank 200 hangs.",))
    assert crowd_of(found, end=end).named == (SLOW, 200, 5)


def test_after_the_named_ranks_come_those_that_others_waited_for_longest(found: Findings) -> None:
    healthy = crowd_of(found, ranks=(), verdict="healthy", suspects=())
    assert healthy.named == ()
    assert healthy.worst_first[0] == SLOW


def test_the_others_come_by_what_they_took_themselves(found: Findings) -> None:
    order = crowd_of(found).worst_first
    assert sorted(order) == list(range(N_RANKS))
    waited_for = set(found.summary.account["waited_for"].dropna())
    own_ms = [found.own.ms[:, rank].mean() for rank in order if rank not in {*waited_for, SLOW}]
    assert own_ms == sorted(own_ms, reverse=True)


def test_references_have_both_ends_and_equal_distances() -> None:
    assert at_distances(range(101), 5) == [0, 25, 50, 75, 100]
    assert at_distances([3, 1], 5) == [3, 1]


# -- the timeline --------------------------------------------------------------------------------------


def test_the_timeline_has_the_named_rank_those_of_its_host_and_references(page: str) -> None:
    lanes = lanes_in(page)
    assert lanes[0] == (f"rank {SLOW}", "named")
    mates = [rank for rank, role in lanes if role == "mate"]
    assert mates == [f"rank {rank}" for rank in range(72, 80) if rank != SLOW]
    assert [role for _, role in lanes[8:]] == ["reference"] * REFERENCES
    assert f"Of {N_RANKS} ranks 24 are shown" in words(page)
    assert "are not in the timeline" not in words(page)


def test_where_nobody_is_named_the_timeline_is_not_said_to_have_others(found: Findings) -> None:
    told = crowd_of(found, ranks=(), verdict="healthy", suspects=()).on_timeline()
    assert told.startswith(f"Of {N_RANKS} ranks 16 are shown: 16 of all, from the slowest")


def test_of_many_named_ranks_and_ranks_of_their_hosts_only_some_are_in_the_timeline(found: Findings) -> None:
    shown = crowd_of(found, ranks=tuple(range(0, 240, 2))).in_timeline()
    assert shown is not None
    assert [len(ranks) for ranks in shown] == [MOST_LINES, HOST_MATES, REFERENCES]
    said = crowd_of(found, ranks=tuple(range(0, 240, 2))).on_timeline()
    assert "20 of 120 that the verdict or the end of the run names; 16 of 20 on the same hosts" in said


def test_of_too_many_spans_of_the_shown_ranks_the_longest_are_drawn(
    monkeypatch: pytest.MonkeyPatch, run: pd.DataFrame, found: Findings
) -> None:
    monkeypatch.setattr(_timeline, "SPANS_OF_MANY", 50)
    whose = found.crowd.in_timeline()
    drawn = _timeline.timeline_of([_timeline.spans_of(run)], None, whose)
    assert drawn.data is not None
    assert len(unpacked(drawn.data["begin"])) == 50
    said = what_is_unknown(replace(found, timeline=drawn))
    assert [one for one in said if "not in the timeline, which draws the 50 longest of 24 ranks." in one]


@pytest.mark.slow("a timeline in parts is quick in test_page.py, and that of some ranks above")
def test_a_timeline_of_some_ranks_made_in_parts_is_that_of_all_rows(
    monkeypatch: pytest.MonkeyPatch, run: pd.DataFrame, found: Findings
) -> None:
    monkeypatch.setattr(_timeline, "MAX_SPANS", 30)
    monkeypatch.setattr(_timeline, "SPANS_OF_MANY", 20)
    whose = found.crowd.in_timeline()
    parts = [_timeline.spans_of(rows.reset_index(drop=True)) for _, rows in run.groupby(run["rank"] // 70)]
    assert _timeline.timeline_of(parts, None, whose) == _timeline.timeline_of(
        [_timeline.spans_of(run)], None, whose
    )


@pytest.mark.slow("files that are read twice; the page of many ranks is quick")
def test_a_page_of_many_files_of_which_some_are_read_again_is_that_of_all_rows(tmp_path: Path) -> None:
    write_many_ranks(tmp_path / "run", FEW_PROCESSES + 4, 10)
    files = timing_files(tmp_path / "run")
    found, _ = findings_in_files(Query(files))
    assert written(found, tmp_path) == report_html(read_timings(tmp_path / "run"))
    assert len(found.timeline.whose.ranks) < FEW_PROCESSES


# -- tables and charts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "which", "command"),
    [
        (N_RANKS, "others waited for longest", "summary --all"),
        (5 * N_RANKS, "are farthest above the median of their operation", "summary --all"),
        (N_RANKS, "are not complete", "summary --all"),
        (N_RANKS, "instants are known worst", "summary --json"),
    ],
)
def test_a_table_says_how_many_rows_are_not_shown_and_what_has_all(
    page: str, n_rows: int, which: str, command: str
) -> None:
    note = next(note for note in re.findall(r'<p class="note">(Of [^<]*)</p>', page) if which in note)
    assert note.startswith(f"Of {n_rows:,} rows these are the {MOST_LINES} ")
    assert note.endswith(f"the other {n_rows - MOST_LINES:,} are not shown. timing-logger {command} has all.")


@pytest.fixture(scope="module")
def with_odd_files(found: Findings) -> Findings:
    """Of a run of which one file is not complete, and the clocks of two others are known worse than all."""
    files = crowd(N_RANKS, 1).attrs["files"]
    files[95]["sidecar"]["closed"] = False
    files[90]["clock"]["uncertainty_s"] = 1e-3
    files[91]["clock"]["uncertainty_s"] = None
    return with_files(found, files)


def test_a_file_that_is_not_complete_is_the_first_in_its_table(with_odd_files: Findings) -> None:
    files = [row[0] for row in files_table(with_odd_files).rows]
    assert (files[0], len(files)) == ("timing-rank95.csv", MOST_LINES)


def test_the_least_known_instants_are_the_first_in_their_table(with_odd_files: Findings) -> None:
    known = [row[0] for row in clocks_table(with_odd_files).rows]
    assert known[:2] == ["rank 91, run 1", "rank 90, run 1"]


def test_the_chart_of_an_operation_has_the_ranks_with_least_and_most_of_many(page: str) -> None:
    start = page.index('<section id="operations"')
    section = page[start : page.index("</section>", start)]
    forward = section[section.index('title="FORWARD"') :]
    chart = forward[forward.index('class="columns"') : forward.index("</div>")]
    bars = re.findall(r'<span title="rank (\d+): ([\d.]+)%">', chart)
    assert len(bars) == FEW_PROCESSES
    assert int(bars[-1][0]) == SLOW
    assert [float(part) for _, part in bars] == sorted(float(part) for _, part in bars)


def test_most_exposed_communication_comes_first_and_the_rest_is_counted(
    run: pd.DataFrame, found: Findings
) -> None:
    run = run[run["rank"] < 80]
    half = (run["operation"] == "ALLREDUCE") & (run["iteration"] % 2 == 0)
    beside = run[half].assign(operation="BACKWARD", thread="other")
    both = pd.concat([run, beside], ignore_index=True)
    drawn = overlap_chart(overlap(both), found.crowd)
    said = "Of 80 rows these are the 20 with most exposed communication; the other 60 are not shown."
    assert drawn.left_out.startswith(said)
    labels = [bar.label for bar in drawn.bars]
    assert len(labels) == MOST_LINES
    assert f"rank {SLOW}" not in labels  # it waits for nobody, so it has least


def test_of_too_many_points_the_slowest_and_the_fastest_are_drawn(found: Findings) -> None:
    n_groups = 500
    rows = {
        "operation": "ALLREDUCE", "group": [f"pair {n}" for n in range(n_groups)], "group_size": 2,
        "count": 3, "message_size_bytes": 1000, "size_class_bytes": 1024.0, "time_ms": 1.0,
        "algbw_gb_per_s": 1.0,
        "busbw_gb_per_s": np.arange(1.0, n_groups + 1), "transfer_ms": 1.0, "transfer_algbw_gb_per_s": 1.0,
        "transfer_busbw_gb_per_s": np.nan,
    }  # fmt: skip
    drawn = bandwidth_chart(pd.DataFrame(rows), found.crowd)
    assert len(drawn.points) == POINTS_OF_MANY
    assert drawn.left_out.startswith("Of 500 points these are the 200 slowest and as many of the fastest")
    assert [row[1] for row in drawn.table.rows] == [f"pair {n}" for n in range(MOST_LINES)]
