"""Which columns of a log of step times say what, and what a record says by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from timing_logger.errors import ConfigurationError, NotImportableError
from timing_logger.importing.imported import LeftOut
from timing_logger.importing.step_columns import StepColumns, StepOfRank, StepsOfFile
from timing_logger.importing.step_records import Unusable
from timing_logger.schema.timing_files import MAX_RANK

SECONDS = StepColumns(seconds="s")


def said_by(
    record: dict[str, Any], columns: StepColumns = SECONDS, name: str = "log.csv"
) -> tuple[int, StepOfRank]:
    return StepsOfFile(Path(name), columns, LeftOut()).of(record)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"seconds": "s", "ms": "t"}, "seconds and ms: both name the duration"),
        ({}, "seconds: nothing names the duration"),
        ({"seconds": "s", "rest": "other"}, "rest: it needs parts, and the duration"),
        ({"parts": ["a"], "rest": "other"}, "rest: it needs parts, and the duration"),
        ({"ms": "t", "rank_in_name": "("}, r"rank_in_name='\(': "),
        ({"ms": "t", "rank_in_name": "rank"}, "must have one group"),
        ({"ms": "t", "rank_in_name": "(a)(b)"}, "must have one group"),
    ],
)
def test_columns_that_contradict_each_other_are_refused(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        StepColumns(**columns)


def test_the_duration_of_the_step_or_those_of_parts_are_enough() -> None:
    assert (StepColumns(ms="t").duration, StepColumns(seconds="s").duration) == ("t", "s")
    assert StepColumns(parts=["a"]).duration == ""
    assert StepColumns(ms="t", parts=["a"], rest="other").rest == "other"


def test_a_record_needs_the_columns_of_step_duration_instant_and_parts() -> None:
    assert StepColumns(ms="t", time="at", parts=["a", "b"], work="w", epoch="e").needed == [
        "step", "t", "at", "a", "b",
    ]  # fmt: skip
    assert StepColumns(parts=["a"]).needed == ["step", "a"]


def test_a_log_without_instants_does_not_tell_them() -> None:
    assert SECONDS.not_told == ["communication", "waits", "instants", "clocks", "end"]
    assert StepColumns(ms="t", time="at").not_told == ["communication", "waits", "clocks", "end"]


def test_what_is_not_named_or_blank_is_not_known() -> None:
    record = {"rank": 3, "step": 7, "s": 0.25, "epoch": 1, "tokens": 9, "at": 5}
    assert said_by(record) == (3, StepOfRank(7, -1, -1, -1.0, 250_000_000, ()))
    columns = StepColumns(seconds="s", epoch="epoch", work="tokens", time="at")
    assert said_by(record, columns) == (3, StepOfRank(7, 1, 5 * 10**9, 9.0, 250_000_000, ()))
    blank = {**record, "epoch": "", "tokens": " "}
    assert said_by(blank, columns) == (3, StepOfRank(7, -1, 5 * 10**9, -1.0, 250_000_000, ()))


def test_durations_are_in_the_unit_of_the_step() -> None:
    record = {"rank": 0, "step": 1, "t": 30, "a": 10, "b": 15}
    assert said_by(record, StepColumns(ms="t", parts=["a", "b"]))[1][4:] == (
        30_000_000,
        (10_000_000, 15_000_000),
    )
    assert said_by(record, StepColumns(seconds="t", parts=["a"]))[1][4:] == (30 * 10**9, (10 * 10**9,))


def test_a_step_lasts_at_least_as_long_as_its_parts() -> None:
    record = {"rank": 0, "step": 1, "t": 20, "a": 10, "b": 15}
    assert said_by(record, StepColumns(ms="t", parts=["a", "b"]))[1].lasts_ns == 25_000_000
    assert said_by(record, StepColumns(parts=["a", "b"]))[1].lasts_ns == 25 * 10**9


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.csv", 3), ("RANK_12.jsonl", 12), ("a-rank.4-rank-5.csv", 5), ("rank000000007.csv", 7),
    ],
)  # fmt: skip
def test_the_name_of_a_file_may_tell_the_rank(name: str, rank: int) -> None:
    assert said_by({"step": 1, "s": 1}, name=name)[0] == rank


@pytest.mark.parametrize("name", ["log.csv", f"rank{MAX_RANK + 1}.csv", "3.csv"])
def test_where_nothing_tells_the_rank_the_file_is_refused_with_its_columns(name: str) -> None:
    with pytest.raises(NotImportableError, match=r"it has no column 'rank', and its name .* \('step', 's'\)"):
        said_by({"step": 1, "s": 1}, name=name)


def test_without_a_column_of_the_rank_the_name_has_to_tell_it() -> None:
    columns = StepColumns(seconds="s", rank="", rank_in_name=r"node(\d+)")
    assert said_by({"step": 1, "s": 1, "rank": 9}, columns, "node4.csv")[0] == 4
    with pytest.raises(NotImportableError, match="nothing tells the rank"):
        said_by({"step": 1, "s": 1, "rank": 9}, columns, "rank4.csv")


def test_the_record_tells_the_rank_before_the_name_of_the_file_does() -> None:
    steps = StepsOfFile(Path("rank3.csv"), SECONDS, LeftOut())
    ranks = [steps.of({"step": 1, "s": 1, "rank": rank})[0] for rank in ("", 5, None)]
    assert ranks == [3, 5, 3]


def test_a_later_record_without_a_rank_is_left_out_alone() -> None:
    steps = StepsOfFile(Path("log.csv"), SECONDS, LeftOut())
    assert steps.of({"step": 1, "s": 1, "rank": 5})[0] == 5
    with pytest.raises(Unusable, match="a record without a value of 'rank'"):
        steps.of({"step": 1, "s": 1})
    assert steps.of({"step": 1, "s": 1, "rank": MAX_RANK})[0] == MAX_RANK
    with pytest.raises(Unusable, match="'rank' that is no whole number of 0 or more, or too large"):
        steps.of({"step": 1, "s": 1, "rank": MAX_RANK + 1})


def test_only_the_first_record_has_to_have_all_columns() -> None:
    with pytest.raises(NotImportableError, match=r"has no column 's'. Its columns are 'step', 'rank'"):
        said_by({"step": 1, "rank": 5})
    steps = StepsOfFile(Path("log.csv"), SECONDS, LeftOut())
    steps.of({"step": 1, "s": 1, "rank": 5})
    with pytest.raises(Unusable, match="a record without a value of 's'"):
        steps.of({"step": 1, "rank": 5})


@pytest.mark.parametrize(
    ("step", "is_usable"), [(2**62, True), (2**62 + 1024, False), (-1, False), (1.5, False)]
)
def test_the_number_of_a_step_is_one_that_a_row_can_hold(step: Any, is_usable: bool) -> None:
    record = {"step": step, "s": 1, "rank": 0}
    if is_usable:
        assert said_by(record)[1].number == step
    else:
        with pytest.raises(Unusable, match="'step' that is no whole number"):
            said_by(record)


def test_a_column_that_is_only_blank_in_the_first_record_is_there() -> None:
    with pytest.raises(Unusable, match="a record without a value of 's'"):
        said_by({"step": "1", "s": "", "rank": 0})


@pytest.mark.parametrize("name", ["s", "x.z"])
def test_a_column_that_is_not_there_is_refused_with_the_first_twenty_that_are(name: str) -> None:
    record = {"step": 1, "x": {"y": 1}, **{f"c{i}": i for i in range(30)}}
    with pytest.raises(
        NotImportableError,
        match=rf"^paths: 'log.csv' has no column '{name}'\. .* 'c17': name one of",
    ):
        said_by(record, StepColumns(seconds=name))
