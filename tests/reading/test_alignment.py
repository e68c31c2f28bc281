"""read_timings puts all ranks on one axis, by what the sidecars say, and says how well it knows it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow import examples, slow
from timing_files import EPOCH_S, record, write_sidecar, write_timing_file

from timing_logger import read_timings
from timing_logger.cli import main
from timing_logger.reading.alignment import Alignment, alignments, wall_offset_ns
from timing_logger.report.html import report_html
from timing_logger.report.questions import _on_clocks
from timing_logger.results import criteria
from timing_logger.schema.record import NS_PER_S, Record
from timing_logger.schema.sidecar import ClockAnchor, ClockOffset
from timing_logger.schema.timing_files import TimingFile, sidecar_path

HERE = {"host": "node1", "boot_id": "b1"}
THERE = {"host": "node2", "boot_id": "b2"}


def offset(at_s: float, offset_s: float, uncertainty_s: float = 1e-6, **fields: Any) -> dict[str, Any]:
    """As measured against rank 0 on ``HERE``."""
    stated = ClockOffset(
        round(at_s * NS_PER_S), round(offset_s * NS_PER_S), round(uncertainty_s * NS_PER_S), 0,
        HERE["host"], HERE["boot_id"], 100,
    )  # fmt: skip
    return {**stated._asdict(), **fields}


def booted(unix_s: float) -> dict[str, Any]:
    """A clock anchor of a host whose ``perf_counter`` began to count then."""
    return {"clock_anchors": [ClockAnchor(0, round(unix_s * NS_PER_S), 50)._asdict()]}


def write_rank(
    folder: Path, rank: int, starts_s: list[float], *, incarnation: int = 1, **sidecar: Any
) -> Path:
    """A timing file with operations of 1 ms, and a sidecar with these fields set to what is given."""
    path = write_timing_file(folder, rank, [record(start_s=s) for s in starts_s], incarnation=incarnation)
    written = write_sidecar(path)
    written.write_text(json.dumps({**json.loads(written.read_text()), **sidecar}))
    return path


def clocks(df: pd.DataFrame) -> list[dict[str, Any]]:
    return [file["clock"] for file in df.attrs["files"]]


def clock(alignment: str, **differing: Any) -> dict[str, Any]:
    """What ``attrs`` says of a file; by default of one on rank 0's own clock."""
    plain = {
        "reference_rank": 0, "measurements": 0, "offset_s": 0.0, "uncertainty_s": 0.0, "contradictions": [],
    }  # fmt: skip
    return {"alignment": alignment, **plain, **differing}


def of_rank(df: pd.DataFrame, rank: int, column: str) -> list[float]:
    values: list[float] = df.loc[df["rank"] == rank, column].tolist()
    return values


# -- by what sidecars say alone ------------------------------------------------------------------------


def aligned(*sidecars: dict[str, Any]) -> list[Alignment]:
    """Return how files of ranks 0, 1, ... with these sidecars are mapped."""
    return alignments([(TimingFile(rank), sidecar) for rank, sidecar in enumerate(sidecars)])


def test_of_several_anchors_the_latest_tells_the_wall_clock() -> None:
    anchors = [{"perf_counter_ns": 0, "unix_ns": 5}, {"perf_counter_ns": 1, "unix_ns": 9}]
    assert wall_offset_ns({"clock_anchors": anchors}) == 8
    assert wall_offset_ns({"clock_anchors": []}) is wall_offset_ns({}) is None


def test_of_two_references_that_as_many_were_measured_against_it_is_that_of_the_lower_rank() -> None:
    measured = [offset(1.0, 0.5, reference_rank=rank, reference_host=f"node{rank}") for rank in (7, 3)]
    found = aligned(*({"clock_offsets": [one]} for one in measured))
    assert [one.reference_rank for one in found] == [None, 3]


def test_a_file_with_many_measurements_counts_once_for_whose_axis_it_is() -> None:
    against_7 = {"reference_rank": 7, "reference_host": "node7"}
    often = [offset(at_s, 0.5, **against_7) for at_s in (1.0, 2.0, 3.0)]
    found = aligned(
        *({"clock_offsets": offsets} for offsets in (often, [offset(1.0, 0.5)], [offset(1.0, 0.5)]))
    )
    assert [one.reference_rank for one in found] == [None, 0, 0]


def test_the_wall_clock_of_the_reference_is_told_by_any_file_of_its_host() -> None:
    measured = {**THERE, "clock_offsets": [offset(1.0, 0.5)]}
    found = aligned(
        HERE, {**HERE, **booted(100.0)}, measured, {"host": "node3", "boot_id": "b3", **booted(130.0)}
    )
    assert (found[3].how, found[3].reference_rank, found[3].course.offset_s.tolist()) == (
        "unaligned",
        0,
        [30.0],
    )


@pytest.mark.parametrize(("first", "second"), [({}, booted(5.0)), (booted(5.0), {})])
def test_where_one_wall_clock_is_not_known_instants_stay_as_recorded(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    _, other = aligned({**HERE, **first}, {**THERE, **second})
    assert (other.how, other.reference_rank, other.course.offset_s.tolist()) == ("unaligned", None, [0.0])


def test_of_as_many_measurements_those_are_taken_whose_worst_is_more_exact() -> None:
    uneven = [offset(1.0, 0.1, 1e-6), offset(2.0, 0.1, 9e-6)]
    even = [offset(1.0, 0.2, 5e-6), offset(2.0, 0.2, 5e-6)]
    for order in ((uneven, even), (even, uneven)):
        found = aligned(HERE, *({**THERE, "clock_offsets": offsets} for offsets in order))
        assert [one.course.offset_s[0] for one in found[1:]] == [0.2, 0.2]


# -- one host --------------------------------------------------------------------------------------


def test_ranks_of_one_host_share_their_clock(tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank, [1.5, 2.5], **HERE)
    df = read_timings(tmp_path)
    assert df["start_s"].tolist() == df["start_counter"].tolist()
    assert df["end_s"].tolist() == df["end_counter"].tolist()
    assert df["clock_uncertainty_s"].tolist() == [0.0] * 6
    assert clocks(df) == [clock("same host")] * 3


def test_what_was_measured_on_one_host_is_not_used(tmp_path: Path) -> None:
    """It is 0 there, exactly."""
    write_rank(tmp_path, 0, [1.0], **HERE)
    write_rank(tmp_path, 1, [1.0], **HERE, clock_offsets=[offset(0, 1e-6)])
    assert of_rank(read_timings(tmp_path), 1, "start_s") == [1.0]


@pytest.mark.parametrize("other", [{**HERE, "boot_id": "b0"}, {**HERE, "host": "node9"}])
def test_one_host_means_the_same_name_and_the_same_boot(tmp_path: Path, other: dict[str, str]) -> None:
    write_rank(tmp_path, 0, [1.0], **HERE)
    write_rank(tmp_path, 1, [1.0], **other)
    df = read_timings(tmp_path)
    assert clocks(df)[1]["alignment"] == "unaligned"
    assert df["clock_uncertainty_s"].isna().tolist() == [False, True]


def test_a_restart_after_a_reboot_is_another_clock(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [1.0], **HERE, **booted(EPOCH_S))
    write_rank(tmp_path, 0, [2.0], incarnation=2, host="node1", boot_id="later", **booted(EPOCH_S + 100))
    df = read_timings(tmp_path, incarnations="all")
    assert df["start_s"].tolist() == [1.0, 102.0]
    assert df["clock_uncertainty_s"].isna().tolist() == [False, True]


# -- measured --------------------------------------------------------------------------------------


def test_one_measurement_shifts_every_instant(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [1.0], **HERE)
    write_rank(tmp_path, 1, [100.0, 107.5], **THERE, clock_offsets=[offset(100.0, -99.5)])
    df = read_timings(tmp_path)
    assert of_rank(df, 1, "start_s") == [0.5, 8.0]
    assert of_rank(df, 1, "end_s") == pytest.approx([0.501, 8.001], abs=1e-12)
    assert of_rank(df, 1, "start_counter") == [100.0, 107.5]
    last_s = pytest.approx(1e-6 + 7.501 * criteria.MAX_CLOCK_DRIFT)
    assert clocks(df)[1] == clock("measured", measurements=1, offset_s=-99.5, uncertainty_s=last_s)


def test_drift_between_two_measurements_is_interpolated(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [0.0], **HERE)
    measured = [offset(20.0, 1.0002, 3e-6), offset(10.0, 1.0, 1e-6)]  # in any order
    write_rank(tmp_path, 1, [5.0, 10.0, 15.0, 20.0, 30.0], **THERE, clock_offsets=measured)
    df = read_timings(tmp_path)
    assert of_rank(df, 1, "start_s") == pytest.approx([6.0, 11.0, 16.0001, 21.0002, 31.0002], abs=1e-12)
    assert clocks(df)[1]["offset_s"] == 1.0002


def test_uncertainty_grows_with_the_distance_to_the_nearest_measurement(tmp_path: Path) -> None:
    """By the drift bound on both sides of a clock that did not drift, and back to what was measured."""
    write_rank(tmp_path, 0, [0.0], **HERE)
    measured = [offset(10.0, 1.0, 1e-6), offset(20.0, 1.0, 1e-6)]
    rows_s = [5.0, 10.0, 12.0, 15.0, 19.0, 20.0, 30.0]
    write_rank(tmp_path, 1, rows_s, **THERE, clock_offsets=measured)
    df = read_timings(tmp_path)
    distances_s = [5, 0.001, 2.001, 5, 1, 0.001, 10.001]  # of the farther end of 1 ms
    expected = [1e-6 + distance_s * criteria.MAX_CLOCK_DRIFT for distance_s in distances_s]
    assert of_rank(df, 1, "clock_uncertainty_s") == pytest.approx(expected, rel=1e-9)
    assert clocks(df)[1]["uncertainty_s"] == pytest.approx(max(expected))


def test_of_a_file_the_largest_uncertainty_is_stated_also_between_its_rows(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [0.0], **HERE)
    write_rank(tmp_path, 1, [10.0], **THERE, clock_offsets=[offset(10.0, 1.0), offset(20.0, 1.0)])
    stated_s = clocks(read_timings(tmp_path))[1]["uncertainty_s"]
    assert stated_s == pytest.approx(1e-6 + 5 * criteria.MAX_CLOCK_DRIFT)


def test_the_uncertainty_of_a_row_is_that_of_its_less_certain_end(tmp_path: Path) -> None:
    """An operation that begins where the clock was just measured, and lasts."""
    write_rank(tmp_path, 0, [0.0], **HERE)
    path = write_rank(tmp_path, 1, [], **THERE)
    rows = [record(start_s=10.0, elapsed_ms=5000.0), record(start_s=5.0, elapsed_ms=5000.0),
            record(start_s=8.0, elapsed_ms=None)]  # fmt: skip
    write_timing_file(tmp_path, 1, rows)
    sidecar = json.loads(sidecar_path(path).read_text())
    sidecar_path(path).write_text(json.dumps({**sidecar, "clock_offsets": [offset(10.0, 1.0, 1e-6)]}))
    found = of_rank(read_timings(tmp_path), 1, "clock_uncertainty_s")
    assert found == pytest.approx(
        [1e-6 + seconds * criteria.MAX_CLOCK_DRIFT for seconds in (5, 5, 2)], rel=1e-9
    )


def test_where_a_clock_drifted_at_the_bound_the_line_between_measurements_is_certain(tmp_path: Path) -> None:
    """It cannot have been anywhere else: the cones of the two measurements meet in it alone."""
    write_rank(tmp_path, 0, [0.0], **HERE)
    measured = [offset(0.0, 1.0, 1e-6), offset(100.0, 1.0 + 100 * criteria.MAX_CLOCK_DRIFT, 1e-6)]
    write_rank(tmp_path, 1, [30.0, 50.0], **THERE, clock_offsets=measured)
    assert of_rank(read_timings(tmp_path), 1, "clock_uncertainty_s") == pytest.approx([1e-6] * 2, abs=1e-9)


STEPPED = [offset(10.0, 1.0, 1e-6), offset(100.0, 1.2, 1e-6), offset(200.0, 1.2, 1e-6)]


def test_measurements_that_contradict_each_other_are_reported(tmp_path: Path) -> None:
    """Of a virtual machine that was paused, say."""
    write_rank(tmp_path, 0, [0.0], **HERE)
    write_rank(tmp_path, 1, [30.0, 150.0], **THERE, clock_offsets=STEPPED)
    with pytest.warns(UserWarning, match=r"timing-rank1\.csv: its clock moved by 200 ms .* within 90 s"):
        df = read_timings(tmp_path)
    (found,) = clocks(df)[1]["contradictions"]
    explained_s = 2e-6 + 90 * criteria.MAX_CLOCK_DRIFT
    assert found == pytest.approx(
        {"after_s": 10.0, "before_s": 100.0, "moved_s": 0.2, "explained_s": explained_s}
    )
    between_s, after_s = of_rank(df, 1, "clock_uncertainty_s")
    assert between_s == pytest.approx(0.2 + explained_s)
    assert after_s <= 0.002


def test_several_contradictions_are_one_warning_of_the_largest(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [0.0], **HERE)
    write_rank(tmp_path, 1, [30.0], **THERE, clock_offsets=[*STEPPED, offset(300.0, 1.1)])
    with pytest.warns(UserWarning, match=r"moved by 200 ms .*; 1 more"):
        read_timings(tmp_path)


def test_measurements_within_the_drift_bound_are_no_cause_for_a_warning(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [0.0], **HERE)
    write_rank(tmp_path, 1, [30.0], **THERE, clock_offsets=[offset(10.0, 1.0), offset(100.0, 1.002)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clocks(read_timings(tmp_path))[1]["contradictions"] == []


def test_the_axis_is_the_references_also_when_its_file_is_not_read(tmp_path: Path) -> None:
    path = write_rank(tmp_path, 1, [5.0], **THERE, clock_offsets=[offset(5.0, 0.25)])
    write_rank(tmp_path, 2, [5.0], **HERE)
    assert read_timings(path)["start_s"].tolist() == [5.25]
    assert read_timings([path, tmp_path])["start_s"].tolist() == [5.25, 5.0]


def test_ranks_of_another_host_share_the_best_measurements_of_their_clock(tmp_path: Path) -> None:
    """Else two ranks with one clock would drift apart by what each measurement is off."""
    write_rank(tmp_path, 0, [1.0], **HERE)
    write_rank(tmp_path, 1, [1.0], **THERE, clock_offsets=[offset(1.0, 5.000004, 4e-6)])
    write_rank(tmp_path, 2, [1.0], **THERE, clock_offsets=[offset(1.0, 5.000001, 1e-6)])
    write_rank(tmp_path, 3, [1.0], **THERE)
    df = read_timings(tmp_path)
    assert df["start_s"].tolist() == [1.0] + [6.000001] * 3
    until_the_end_s = 0.001 * criteria.MAX_CLOCK_DRIFT
    assert df["clock_uncertainty_s"].tolist() == pytest.approx([0.0] + [1e-6 + until_the_end_s] * 3, rel=1e-9)


def test_a_restart_has_its_own_measurements(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [1.0], **HERE)
    twice = [offset(1.0, 5.0), offset(2.0, 5.0)]
    write_rank(tmp_path, 1, [1.5], **THERE, clock_offsets=twice)
    write_rank(tmp_path, 1, [900.0], incarnation=2, **THERE, clock_offsets=[offset(900.0, 6.0)])
    df = read_timings(tmp_path, incarnations="all")
    assert of_rank(df, 1, "start_s") == [6.5, 906.0]


def test_the_reference_is_the_one_that_most_files_were_measured_against(tmp_path: Path) -> None:
    towards_3 = {"reference_rank": 3, "reference_host": "node4", "reference_boot_id": "b4"}
    for rank in range(3):
        measured = [offset(1.0, 10.0 + rank, **towards_3)]
        write_rank(tmp_path, rank, [1.0], host=f"node{rank}", boot_id="b", clock_offsets=measured)
    write_rank(tmp_path, 3, [1.0], host="node4", boot_id="b4", clock_offsets=[offset(1.0, 7.0)])
    df = read_timings(tmp_path)
    assert {clock["reference_rank"] for clock in clocks(df)} == {3}
    assert df["start_s"].tolist() == [11.0, 12.0, 13.0, 1.0]


DAMAGED = [
    "offsets", 7, None, {}, [7], [None], [{}], [[1, 2, 3, 4, 5, 6, 7]], [offset(1, 1, offset_ns="1")],
    [offset(1, 1, offset_ns=None)], [offset(1, 1, perf_counter_ns=2**70)], [offset(1, 1, reference_host=3)],
    [offset(1, 1, uncertainty_ns=-1)],
]  # fmt: skip


def test_measurements_against_another_reference_are_not_used(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [1.0], **HERE)
    for rank in (1, 2):
        write_rank(tmp_path, rank, [1.0], **THERE, clock_offsets=[offset(1.0, 5.0)])
    other = offset(1.0, 9.0, reference_rank=1, reference_host="node2", reference_boot_id="b2")
    write_rank(tmp_path, 3, [1.0], host="node3", boot_id="b3", clock_offsets=[other])
    assert clocks(read_timings(tmp_path))[3]["alignment"] == "unaligned"


@pytest.mark.parametrize(
    "damaged",
    [one if place in (6, 8, 10) else slow(one, "another that is none") for place, one in enumerate(DAMAGED)],
)
def test_damaged_offsets_are_no_measurements(tmp_path: Path, damaged: Any) -> None:
    write_rank(tmp_path, 0, [1.0], **HERE)
    write_rank(tmp_path, 1, [1.0], **THERE, clock_offsets=damaged)
    assert clocks(read_timings(tmp_path))[1]["alignment"] == "unaligned"


# -- unaligned -------------------------------------------------------------------------------------


def test_unmeasured_hosts_are_mapped_by_their_wall_clocks(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [10.0], **HERE, **booted(EPOCH_S))
    write_rank(tmp_path, 1, [4.0], **THERE, **booted(EPOCH_S + 6.5))
    df = read_timings(tmp_path)
    assert df["start_s"].tolist() == [10.0, 10.5]
    assert df["clock_uncertainty_s"].isna().tolist() == [False, True]
    assert clocks(df)[1] == clock("unaligned", offset_s=6.5, uncertainty_s=None)


def test_sidecars_that_name_no_boot_are_mapped_by_their_wall_clocks(tmp_path: Path) -> None:
    """Those of a system without boot ids: the same host name may be another boot."""
    write_rank(tmp_path, 0, [10.0], host="node1", boot_id="", **booted(EPOCH_S))
    write_rank(tmp_path, 1, [4.0], host="node1", boot_id="", **booted(EPOCH_S + 6.5))
    df = read_timings(tmp_path)
    assert df["start_s"].tolist() == [10.0, 10.5]
    assert df["clock_uncertainty_s"].isna().all()


def test_without_sidecars_instants_stay_as_recorded(tmp_path: Path) -> None:
    for rank in range(2):
        write_timing_file(tmp_path, rank, [record(start_s=4.0 + rank)])
    df = read_timings(tmp_path)
    assert df["start_s"].tolist() == [4.0, 5.0]
    assert df["clock_uncertainty_s"].isna().all()
    as_recorded = clock("unaligned", reference_rank=None, offset_s=None, uncertainty_s=None)
    assert clocks(df) == [as_recorded] * 2


def test_a_rank_whose_clock_is_not_known_is_no_reference(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [10.0], host="node1", boot_id="", **booted(EPOCH_S))
    write_rank(tmp_path, 1, [4.0], **HERE, **booted(EPOCH_S + 6.5))
    df = read_timings(tmp_path)
    assert df["start_s"].tolist() == [3.5, 4.0]
    assert [clock["reference_rank"] for clock in clocks(df)] == [1, 1]


def test_a_rank_without_a_sidecar_leaves_the_others_aligned(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [record()])
    for rank in (1, 2):
        write_rank(tmp_path, rank, [1.0], **HERE)
    df = read_timings(tmp_path)
    assert [clock["reference_rank"] for clock in clocks(df)] == [None, 1, 1]
    assert df["clock_uncertainty_s"].isna().tolist() == [True, False, False]


def test_same_host_measured_and_unaligned_ranks_come_in_one_table(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, [1.0], **HERE, **booted(EPOCH_S))
    write_rank(tmp_path, 1, [1.0], **HERE)
    write_rank(tmp_path, 2, [1.0], **THERE, clock_offsets=[offset(1.0, 2.0)])
    write_rank(tmp_path, 3, [1.0], host="node3", boot_id="b3", **booted(EPOCH_S - 3))
    df = read_timings(tmp_path)
    assert [clock["alignment"] for clock in clocks(df)] == ["same host", "same host", "measured", "unaligned"]
    assert df["start_s"].tolist() == [1.0, 1.0, 3.0, -2.0]


# -- types and blanks ------------------------------------------------------------------------------


def test_blank_instants_stay_blank(tmp_path: Path) -> None:
    rows: list[Record] = [record(), record(elapsed_ms=None)]
    path = write_timing_file(tmp_path, 1, rows)
    write_sidecar(path)
    sidecar = {**json.loads(sidecar_path(path).read_text()), **THERE, "clock_offsets": [offset(1.0, 1.0)]}
    sidecar_path(path).write_text(json.dumps(sidecar))
    df = read_timings(tmp_path)
    assert df["start_s"].tolist() == [2.0, 2.0]
    assert df["end_s"].isna().tolist() == [False, True]


def test_the_columns_are_floats_also_without_rows(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [])
    df = read_timings(tmp_path)
    assert {str(df[name].dtype) for name in ("start_s", "end_s", "clock_uncertainty_s")} == {"float64"}


moments_s = st.lists(st.integers(0, 10_000), min_size=1, max_size=6, unique=True)


@given(moments_s, st.lists(st.integers(0, 20_000), min_size=1, max_size=20), st.data())
@settings(max_examples=examples(100, few=8))
def test_a_clock_that_drifts_steadily_is_followed_exactly_between_measurements(
    measured_at_s: list[int], instants_s: list[int], data: st.DataObject
) -> None:
    drift = data.draw(st.sampled_from([-2e-5, 0.0, 1e-5]))
    measured = [offset(at, 50 + drift * at) for at in measured_at_s]
    sidecars = [(TimingFile(0), dict(HERE)), (TimingFile(1), {**THERE, "clock_offsets": measured})]
    _, alignment = alignments(sidecars)
    counter_s = pd.Series(instants_s, dtype="float64").to_numpy()
    error_s = abs(alignment.on_the_axis(counter_s) - (counter_s + 50 + drift * counter_s))
    assert (error_s <= alignment.uncertainty_at(counter_s)).all()  # also outside: the bound is 3e-5
    inside = (counter_s >= min(measured_at_s)) & (counter_s <= max(measured_at_s))
    assert (error_s[inside] <= 2e-9).all()


# -- what is said of it ----------------------------------------------------------------------------


@pytest.mark.slow("that a step is found, and how it is put, is quick; the rows that are asked bring it along")
@pytest.mark.parametrize("question", ["waits", "trace", "summary"])
def test_the_command_line_says_whose_clock_was_stepped(
    question: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rank(tmp_path, 0, [0.0], **HERE)
    write_rank(tmp_path, 1, [30.0], **THERE, clock_offsets=STEPPED)
    main([question, str(tmp_path), *(["-o", str(tmp_path / "trace.json")] if question == "trace" else [])])
    said = " ".join(capsys.readouterr().out.split())
    assert "timing-rank1.csv: its clock moved by 200 ms against the reference's within 90 s" in said
    assert "timing-rank0.csv: its clock" not in said


@pytest.mark.slow("that drift is no step is quick")
@pytest.mark.parametrize("question", ["waits", "summary"])
def test_the_command_line_says_nothing_of_clocks_that_only_drift(
    question: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rank(tmp_path, 0, [0.0], **HERE)
    write_rank(tmp_path, 1, [30.0], **THERE, clock_offsets=[offset(10.0, 1.0), offset(100.0, 1.002)])
    main([question, str(tmp_path)])
    assert "its clock" not in capsys.readouterr().out


@pytest.mark.slow("a whole page; that waits says it, and how exact the row is, is quick")
def test_the_page_says_how_each_rank_was_aligned_how_exactly_and_whose_clock_was_stepped(
    tmp_path: Path,
) -> None:
    write_rank(tmp_path, 0, [0.0], **HERE)
    write_rank(tmp_path, 1, [30.0], **THERE, clock_offsets=STEPPED)
    with pytest.warns(UserWarning, match="its clock moved"):
        page = report_html(read_timings(tmp_path))
    assert "its clock moved by 200 ms" in page
    assert "measured" in page
    assert "202702.0" in page  # us: the step, both measurements, 90 s of drift


def test_a_violation_of_the_clocks_is_said_with_what_it_means() -> None:
    totals = pd.DataFrame({"uncertainty_ms": [0.1], "clock_violations": [1]})
    *_, said = _on_clocks(totals)
    assert said.startswith("1 row ended before a rank had come that it needed: a clock is farther off")


@pytest.mark.slow("that it is said is quick, and waits count what violates the clocks")
def test_waits_say_what_a_violation_of_the_clocks_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank, start_s in enumerate([1.0, 1.2]):
        path = write_timing_file(tmp_path, rank, [record(start_s=start_s, seq=0, group_size=2)])
        written = write_sidecar(path)
        written.write_text(json.dumps({**json.loads(written.read_text()), **HERE}))
    main(["waits", str(tmp_path)])
    said = " ".join(capsys.readouterr().out.split())
    assert "1 row ended before a rank had come that it needed: a clock is farther off" in said
