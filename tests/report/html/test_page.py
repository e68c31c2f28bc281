"""The HTML report, as far as its text tells: what stands in it, and that names in the data do no harm."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from crowds import data_in
from hung_runs import Rank, waiting, write_run
from hypothesis import given, settings
from hypothesis import strategies as st
from page_data import unpacked
from processes import run_warm
from rank_tables import aligned, collective
from rank_tables import quick_table as table
from simulated_runs import data_parallel, factors
from small_run import GOLDEN, visible_text
from timing_files import record, write_table, write_timing_file

from timing_logger.analysis import RunEnd, Verdict, bandwidth, compression, overlap
from timing_logger.engine.rows import Query
from timing_logger.engine.run import answers_in_batches, shown_in_files
from timing_logger.engine.workers import Processes
from timing_logger.errors import ConfigurationError
from timing_logger.reading.named_ranks import select
from timing_logger.reading.timings import read_timings, timing_files
from timing_logger.report.html import _timeline, page, report_html, write_report
from timing_logger.report.html._accounting import what_is_unknown
from timing_logger.report.html._findings import COLLECTIVES, Findings, _processes
from timing_logger.report.html._tables import as_script_data
from timing_logger.report.html._verdict import judgement
from timing_logger.report.html.page import write_findings
from timing_logger.schema.record import COLUMNS

HOSTILE = "</script><img src=x onerror=alert(1)>{{ 7 * 7 }}"


class Elements(HTMLParser):
    """The tags of a page and their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.found)


def page_of(found: Findings, folder: Path) -> str:
    write_findings(found, folder / "page.html")
    return (folder / "page.html").read_text(encoding="utf-8")


def written_run(folder: Path) -> Path:
    """Ranks that restart their iterations, of which one has no aligned clock, one died early, and one was
    started twice; with a layer that is compressed, and collectives that are not whole."""
    slow = factors(40, 3, noise=0.2)
    slow[10:35, 2] *= 2
    run = data_parallel(slow, operations_ms={"COMPRESS": 2.0, "BACKWARD": 20.0, "DECOMPRESS": 1.0})
    sends = run["operation"] == "ALLREDUCE"
    run = run.assign(
        layer_name=np.where(sends & (run["iteration"] % 2 == 0), "dense", "layer1"),
        iteration=run["iteration"] % 20,
    )
    run = run[(run["rank"] != 1) | (run["start_counter"] < run["start_counter"].median())]
    write_table(folder, run)
    write_timing_file(folder, 0, [record(start_s=90 + i, seq=i, elapsed_ms=None) for i in range(3)],
                      incarnation=2)  # fmt: skip
    return folder


# -- the whole page ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(report: Path) -> str:
    """The page of the small run."""
    return report.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def plain() -> pd.DataFrame:
    return data_parallel(factors(3, 3))


@pytest.fixture(scope="module")
def found(plain: pd.DataFrame) -> Findings:
    """Of a table of ten columns."""
    return Findings.of(plain[[*COLUMNS[:10], "rank"]])


@pytest.fixture(scope="module")
def plain_page(found: Findings, tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(found, tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def page_without_rows(plain: pd.DataFrame) -> str:
    return report_html(plain.head(0))


def test_a_log_gives_the_same_text_every_time(small: str) -> None:
    assert visible_text(small) == GOLDEN.read_text()


@pytest.mark.slow("its text is compared above, and two pages of one run below")
@pytest.mark.filterwarnings("ignore::UserWarning")  # the unfinished line
def test_a_log_gives_the_same_page_every_time_and_the_file_holds_it(
    small: str, report: Path, tmp_path: Path
) -> None:
    write_report(read_timings(report.parent / "logs" / "small"), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == small


@pytest.mark.slow("each analysis in parts is quick in tests/analysis and tests/engine, and a timeline below")
@pytest.mark.parametrize("most_spans", [20, 10**6])
@pytest.mark.parametrize(
    "options", [{"ranks": {0, 2}, "iterations": slice(3, 17)}, {}, {"iterations": slice(500, 600)}]
)
def test_a_page_made_in_parts_is_that_of_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], most_spans: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(_timeline, "MAX_SPANS", most_spans)
    folder = written_run(tmp_path)
    rows = read_timings(folder, incarnations="all")
    expected = tmp_path / "whole.html"
    write_report(select(rows, **{"ranks": None, "iterations": None, **options}), expected)
    query = Query(timing_files(folder, incarnations="all"), **options)
    processes, collectives = answers_in_batches(
        (_processes(with_spans=True, host=None), COLLECTIVES), query, Processes(1)
    )
    shown = processes.step and shown_in_files(processes.step, processes.crowd.named, query)
    found = Findings(**vars(processes), **vars(collectives), shown=shown, code=[])
    write_findings(found, tmp_path / "parts.html")
    assert (tmp_path / "parts.html").read_text() == expected.read_text()


def test_a_timeline_made_in_parts_is_that_of_all_rows_if_one_rank_is_on_no_common_axis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_timeline, "MAX_SPANS", 5)
    run = data_parallel(factors(4, 2, noise=0.3))
    duration_s = run["end_counter"] - run["start_counter"]
    run = run.assign(
        start_s=run["start_counter"],
        end_s=run["start_counter"] + 1 - duration_s,  # the longest here are the shortest on its own axis
        clock_uncertainty_s=run["rank"].map({0: 1e-6, 1: np.nan}),
    )
    parts = [_timeline.spans_of(rows.reset_index(drop=True)) for _, rows in run.groupby("rank")]
    assert [part.is_common for part in parts] == [True, False]
    assert _timeline.timeline_of(parts) == _timeline.timeline(run)


def test_without_host_counters_no_strip_and_no_lines_are_drawn(small: str) -> None:
    data = data_in(small)
    assert (data["causes"], data["counters"]) == (None, None)


def test_the_page_refers_to_no_other_document(small: str) -> None:
    page = Elements(small)
    targets = [value for _, attrs in page.found for key in ("src", "href") if (value := attrs.get(key))]
    assert [target for target in targets if not target.startswith(("#", "data:"))] == []


def test_a_name_that_is_markup_stays_text() -> None:
    plain = data_parallel(factors(2, 2))
    runs = [
        plain.assign(**dict.fromkeys(columns, HOSTILE), iteration=plain["iteration"] + 2 * n_before)
        for n_before, columns in enumerate(
            (["layer_name", "thread", "group", "phase"], ["operation"], ["status"])
        )
    ]
    page = Elements(report_html(pd.concat(runs, ignore_index=True)))
    assert page.count("img") == 0
    assert page.count("script") == 2
    assert "49" not in [text for text in page.rawdata.split() if "{{" in text]


@settings(deadline=None)  # the machine may be busy
@given(st.dictionaries(st.text(), st.text()))
def test_data_in_a_script_cannot_end_it_and_is_unchanged(content: dict[str, str]) -> None:
    written = as_script_data(content)
    assert "<" not in written
    assert json.loads(written) == content


def test_where_jinja2_is_missing_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setattr(page, "_environment", page._environment.__wrapped__)  # that of before is kept
    with pytest.raises(ConfigurationError, match=r"pip install 'timing_logger\[html\]'"):
        page.rendered("page.html.jinja", {})


@pytest.mark.slow("a process of its own; the error is raised above")
def test_without_jinja2_the_error_names_the_extra() -> None:
    run = run_warm(
        """
        import sys
        sys.modules["jinja2"] = None
        import pandas as pd
        from timing_logger.errors import ConfigurationError
        from timing_logger.report.html import report_html
        from timing_logger.schema.record import COLUMNS
        try:
            report_html(pd.DataFrame(columns=[*COLUMNS, "rank"]))
        except ConfigurationError as error:
            print(error)
        """
    )
    assert "pip install 'timing_logger[html]'" in run.stdout, run.stderr


# -- tables that lack something ------------------------------------------------------------------------


def test_ten_columns_are_enough_for_a_report(plain_page: str) -> None:
    page = visible_text(plain_page)
    assert "Time of the step" in page
    assert "Nothing is known about the files that these rows came from." in page


def test_a_run_without_iterations_has_no_heatmap(unusual: str) -> None:
    assert "No iteration is recorded." in visible_text(unusual)


def test_a_table_without_rows_gives_a_page_that_says_so(page_without_rows: str) -> None:
    page = visible_text(page_without_rows)
    assert "Nobody could be judged: there are no rows." in page
    assert "No row has instants." in page


def test_a_page_without_rows_has_no_table_and_leads_to_no_other_command(page_without_rows: str) -> None:
    assert "<table>" not in page_without_rows
    assert "timing-logger summary" not in page_without_rows
    assert "Part of each rank" not in page_without_rows


def test_an_operation_that_took_as_long_on_each_rank_names_no_rank(plain_page: str) -> None:
    assert "on each rank</span>" in plain_page
    assert "(rank" not in visible_text(plain_page)


@pytest.mark.parametrize(
    ("state", "warns", "badly"),
    [("hang", True, True), ("failed", True, True), ("unfinished", True, False), ("ended", False, False)],
)
def test_a_run_is_said_to_have_ended_badly_only_where_that_is_known(
    found: Findings, state: str, warns: bool, badly: bool
) -> None:
    end = RunEnd(state=state, sentences=("So it was.",))
    said = judgement(replace(found, verdict=Verdict(verdict="healthy", end=end)))
    assert (said.end, said.ended_badly) == (end.sentences if warns else (), badly)


@pytest.mark.slow("two pages; what they are made of is told by state above")
def test_that_a_run_ended_badly_is_said_only_where_it_is_known(tmp_path: Path) -> None:
    hung = report_html(read_timings(write_run(tmp_path / "hung", waiting(), waiting(), waiting(), Rank())))
    lacking = report_html(
        read_timings(write_run(tmp_path / "lacking", Rank(closed=True), Rank(closed=True), world_size=3))
    )
    badly = "The run did not end well"
    assert badly in hung
    assert badly not in lacking
    assert "Whether the run ended is not known" in lacking


@pytest.fixture(scope="module")
def flawed(found: Findings) -> str:
    """What is said not to be known of a run with rows without instants, and a collective without a rank."""
    lacking = collective([0.0, 1.0, 2.0], 3.0, group_size=4)
    unknown = [record("FORWARD", elapsed_ms=None), record("FORWARD", elapsed_ms=None)]
    timings = table([*lacking[0], *unknown], *lacking[1:])
    timings.loc[timings["operation"] == "FORWARD", ["start_counter", "end_counter"]] = np.nan
    of_it = replace(found, timeline=_timeline.timeline(timings), **vars(COLLECTIVES.of(timings)))
    return "\n".join(what_is_unknown(of_it))


def test_rows_without_instants_are_counted(flawed: str) -> None:
    assert "2 rows without a start and an end: not in the timeline." in flawed


def test_a_collective_that_lacks_a_rank_is_among_what_is_not_known(flawed: str) -> None:
    assert "1 collective incomplete: no rows of 1 of the group's ranks." in flawed


# -- sections ------------------------------------------------------------------------------------------


def test_of_too_many_spans_the_longest_are_drawn_and_the_page_says_so(
    found: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_timeline, "MAX_SPANS", 2)
    timings = table([record(start_s=i, elapsed_ms=ms) for i, ms in enumerate([5.0, 1.0, 9.0], start=1)])
    drawn = _timeline.timeline(timings)
    assert (drawn.n_spans, drawn.left_out, drawn.shortest_ms) == (2, 1, pytest.approx(5.0))
    said = "\n".join(what_is_unknown(replace(found, timeline=drawn)))
    assert "1 row shorter than 5 ms are not in the timeline" in said


def test_spans_keep_a_microsecond_in_an_hour() -> None:
    starts_s = [1.0, 3601.000123]
    drawn = _timeline.timeline(table([record(start_s=start) for start in starts_s]))
    assert drawn.data is not None
    begin_s = unpacked(drawn.data["begin"]) * drawn.data["tick_s"]
    assert begin_s[1] == pytest.approx(3600.000123, abs=1e-6)


@pytest.mark.slow("test_timeline.py has rows with and without epochs")
def test_the_epochs_of_spans_are_in_the_timeline_where_any_is_recorded() -> None:
    counted = [record(start_s=1.0, iteration=0, epoch=3), record(start_s=2.0, iteration=0, epoch=None)]
    of_epochs, without = (_timeline.timeline(table(rows)) for rows in (counted, [record(epoch=None)]))
    assert of_epochs.data is not None
    assert without.data is not None
    assert unpacked(of_epochs.data["epoch"]).tolist() == [3, -1]
    assert without.data["epoch"] is None


@pytest.mark.slow("test_timeline.py has both axes")
def test_ranks_share_an_axis_only_where_their_clocks_are_aligned() -> None:
    ranks = table([record(start_s=1.0)], [record(start_s=5.0)])
    apart, common = _timeline.timeline(ranks), _timeline.timeline(aligned(ranks))
    assert apart.data is not None
    assert common.data is not None
    assert unpacked(apart.data["begin"]).tolist() == [0, 0]
    assert (unpacked(common.data["begin"]) * common.data["tick_s"]).tolist() == pytest.approx([0.0, 4.0])


def test_a_run_without_compression_has_no_such_section(plain_page: str) -> None:
    assert "Does compression pay?" not in plain_page


@pytest.fixture(scope="module")
def unusual(plain: pd.DataFrame, found: Findings, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a run without iterations, in which a layer is compressed, messages have two sizes, and all
    of them go on beside own work."""
    sparse = {"phase": "sparse", "layer_name": "embedding"}
    ranks = [
        [
            record("ALLREDUCE", 1.0, 20.0, message_size_bytes=1_000_000, group_size=2, seq=0),
            record("COMPRESS", 2.0, 1.0, **sparse, message_size_bytes=1_000_000, group_size=2),
            record("ALLGATHERV_TOPK", 2.1, 3.0, **sparse, message_size_bytes=10_000, group_size=2, seq=1),
            record("DECOMPRESS", 2.2, 1.0, **sparse, message_size_bytes=10_000, group_size=2),
        ]
        for _ in range(2)
    ]
    run = plain.copy()
    run.loc[run["operation"] == "ALLREDUCE", "message_size_bytes"] = 1000 * (1 + 99 * (run["iteration"] % 2))
    beside = run[run["operation"] == "ALLREDUCE"].assign(
        operation="BACKWARD", thread="other", message_size_bytes=pd.NA
    )
    both = pd.concat([run, beside], ignore_index=True)
    hidden = overlap(both)
    of_it = replace(
        found,
        overlap=hidden.assign(iteration=pd.array([None] * len(hidden), "Int64")),
        bandwidth=bandwidth(both),
        compression=compression(table(*ranks)),
    )
    return page_of(of_it, tmp_path_factory.mktemp("unusual"))


def test_a_layer_that_is_compressed_has_its_break_even(unusual: str) -> None:
    text = visible_text(unusual)
    assert "Does compression pay?" in text
    assert "0.25, pays" in text


# -- sections that say nothing of this run -------------------------------------------------------------


def section(page: str, name: str) -> str:
    """The text of the section in one line, if it is a line; else ""."""
    start = page.index(f'<section id="{name}"')
    found = page[start : page.index("</section>", start)]
    return " ".join(visible_text(found).split()) if 'class="brief"' in found.split(">")[0] else ""


def test_a_bandwidth_of_one_kind_and_size_is_a_sentence(small: str) -> None:
    assert section(small, "bandwidth") == (
        "Bandwidth ALLREDUCE of 1 MB in world, 160 rows: algbw 0.0893 GB/s, busbw 0.134 GB/s, "
        "busbw 1.00 GB/s by transfer time, without waiting."
    )


def test_without_any_bandwidth_there_is_a_sentence_that_says_so(plain_page: str) -> None:
    assert section(plain_page, "bandwidth") == "Bandwidth No operation has both bytes and a bandwidth."


def test_bandwidths_of_two_sizes_are_drawn(unusual: str) -> None:
    assert section(unusual, "bandwidth") == ""
    assert "ALLREDUCE of 1 kB in world: busbw" in unusual
    assert "its busbw GB/s" in unusual


def test_communication_of_which_nothing_is_hidden_is_a_sentence(small: str) -> None:
    assert section(small, "overlap") == (
        "Exposed and hidden communication All communication was exposed, 0.0618 s to 0.37 s on each rank: "
        "the ranks had no work of their own meanwhile."
    )


def test_hidden_communication_is_drawn(unusual: str) -> None:
    assert section(unusual, "overlap") == ""
    assert "(100.0%)" in unusual


def test_every_algbw_and_busbw_on_the_page_has_its_unit(unusual: str) -> None:
    lines = visible_text(unusual).splitlines()
    assert sum("busbw" in line for line in lines) >= 6
    for line in lines:
        assert len(re.findall(r"(?:alg|bus)bw", line)) == line.count("GB/s"), line
