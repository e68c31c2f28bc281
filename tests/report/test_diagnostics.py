"""What a summary says of files and rows that are remarkable or missing, a sentence each."""

from __future__ import annotations

from typing import Any, cast

import pandas as pd
import pytest

from timing_logger.analysis import Summary
from timing_logger.analysis.rows.files import File, FileCounters
from timing_logger.report import _diagnostics
from timing_logger.report._diagnostics import (
    diagnostics,
    is_complete,
    left_out_in_words,
    on_different_runs,
    on_left_out_of_imports,
    on_overlap,
    on_problems,
)
from timing_logger.schema.record import LARGEST


def file_of(rank: int = 0, **fields: Any) -> File:
    """Return what is known of a complete file; ``fields`` are others."""
    path = f"timing-rank{rank}.csv"
    plain = {
        "path": path, "rank": rank, "incarnation": 1, "parts": [{"path": path}], "bytes": 9, "cut": "",
        "bad_lines": 0, "bad_examples": [], "sidecar": {},
    }  # fmt: skip
    return cast("File", {**plain, **fields})


def counters_of(rank: int = 0, **fields: Any) -> FileCounters:
    """Return the counts of a complete file; ``fields`` are others."""
    plain = {
        "rank": rank, "incarnation": 1, "file": f"timing-rank{rank}.csv", "rows": 5, "has_sidecar": True,
        "accepted": 5, "written": 5, "dropped": 0, "pending": 0, "closed": True, "agrees": True,
    }  # fmt: skip
    return cast("FileCounters", {**plain, **fields})


def said_of(
    *files: File, counters: list[FileCounters] | None = None, everything: bool = True, **fields: Any
) -> list[str]:
    """Return what is said of a run with these files, of which nothing but ``fields`` is remarkable."""
    nothing = pd.DataFrame()
    plain = dict.fromkeys(Summary._fields, nothing)
    plain |= {
        "files": list(files), "counters": counters or [counters_of(file["rank"]) for file in files],
        "left_out": [], "different_runs": "",
    }  # fmt: skip
    return list(diagnostics(Summary(**{**plain, **fields}), everything=everything))


def test_nothing_is_said_of_a_complete_run() -> None:
    assert said_of(file_of(0), file_of(1)) == []


def test_ranks_without_a_file_are_named() -> None:
    assert said_of(file_of(1, sidecar={"world_size": 2})) == [
        "There is no file of rank 0, and the run had 2 ranks."
    ]


def test_ranks_that_were_to_record_nothing_have_a_sentence_of_their_own() -> None:
    sidecar = {"world_size": 3, "options": {"ranks": [0, 1]}}
    assert said_of(file_of(0, sidecar=sidecar)) == [
        "There is no file of rank 1, and the run had 3 ranks.",
        "Rank 2 recorded nothing, as the option ranks of the loggers asks.",
    ]


def test_rows_that_did_not_end_well_are_counted() -> None:
    statuses = pd.DataFrame([{"operation": "SEND", "status": "error:Lost", "count": 2, "of": 30}])
    assert said_of(file_of(), statuses=statuses) == ["SEND: 2 of 30 rows with the status error:Lost."]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"cut": "12,0"}, "its last line is not finished and was cut: '12,0'."),
        ({"bad_lines": 2, "bad_examples": ["x", "y"]}, "2 damaged lines skipped, such as 'x'."),
        ({"bad_lines": 1, "bad_examples": ["x"]}, "1 damaged line skipped, such as 'x'."),
        (
            {"sidecar": {"parts": [{"file": "timing-rank0.part2.csv", "rows": 7}]}},
            "its part timing-rank0.part2.csv, with 7 rows, is not there.",
        ),
        (
            {"inexact": {"message_size_bytes": 3}},
            f"numbers beyond {LARGEST} either way count as blank: 3 of message_size_bytes.",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name(fields: dict[str, Any], sentence: str) -> None:
    assert said_of(file_of(**fields)) == [f"timing-rank0.csv: {sentence}"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"has_sidecar": False, "agrees": None}, "no sidecar, so what was accepted or dropped is not known."),
        ({"agrees": False, "written": 6}, "5 rows read, but its logger had written 6."),
        (
            {"agrees": False, "written": 4, "closed": False},
            "5 rows read, but its logger had written 4 when its sidecar was last written; it was not closed.",
        ),
        ({"dropped": 1, "accepted": 6}, "1 record of 6 dropped, and in no file."),
    ],
)
def test_what_the_counters_of_a_file_tell_is_said_with_its_name(
    fields: dict[str, Any], sentence: str
) -> None:
    assert said_of(file_of(), counters=[counters_of(**fields)]) == [f"timing-rank0.csv: {sentence}"]


@pytest.mark.parametrize(
    ("fields", "complete"),
    [
        ({}, True),
        ({"agrees": None}, True),
        ({"agrees": False}, False),
        ({"closed": False}, False),
        ({"closed": None}, False),
        ({"dropped": 1}, False),
        ({"pending": 1}, False),
    ],
)
def test_a_file_is_complete_if_it_was_closed_with_every_record(
    fields: dict[str, Any], complete: bool
) -> None:
    assert is_complete(counters_of(**fields)) is complete


def test_files_that_were_not_read_are_named_with_the_reason() -> None:
    left_out = [{"path": "/logs/timing-rank7.csv", "reason": "of an earlier run"}]
    assert said_of(file_of(), left_out=left_out) == ["timing-rank7.csv: left out, of an earlier run."]


def test_of_many_files_the_same_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_diagnostics, "MOST_LINES", 2)
    files = [file_of(rank, cut="x") for rank in range(2)]
    each = [f"timing-rank{rank}.csv: its last line is not finished and was cut: 'x'." for rank in range(3)]
    assert said_of(*files, everything=False) == each[:2]
    files.append(file_of(2, cut="x"))
    assert said_of(*files, everything=True) == each
    assert said_of(*files, everything=False) == [
        "3 files, such as timing-rank0.csv: its last line is not finished and was cut: 'x'."
    ]


def test_of_many_sentences_those_on_most_files_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_diagnostics, "MOST_LINES", 1)
    files = [file_of(rank, cut=cut) for rank, cut in enumerate("abbcc")]
    assert said_of(*files, everything=False) == [
        "2 files, such as timing-rank1.csv: its last line is not finished and was cut: 'b'.",
        "2 more sentences of this kind, on 3 files, are left out. timing-logger summary --all has all.",
    ]


def test_problems_of_files_are_said_without_a_summary() -> None:
    files = [file_of(0), file_of(1, sidecar={"unusable": ["host"]})]
    assert list(on_problems(files)) == [
        "timing-rank1.csv: its sidecar states no value that can be one for host."
    ]


def test_it_is_said_if_files_are_of_different_runs() -> None:
    (sentence,) = on_different_runs("they\x1bbegan")
    assert sentence.startswith(r"These files look like those of different runs: they\u001bbegan. ")
    assert list(on_different_runs("")) == []


def test_a_summary_says_that_files_are_of_different_runs_before_all_else() -> None:
    first, last = said_of(file_of(cut="x"), different_runs="they began days apart")
    assert first.startswith("These files look like those of different runs: they began days apart.")
    assert last.startswith("timing-rank0.csv: ")


def test_a_summary_says_what_was_left_out_of_imports() -> None:
    imported = {"imported": {"left_out": {"no rank": 2}}}
    assert said_of(file_of(sidecar=imported)) == ["2 records were left out of the import: 2 for no rank."]


# -- records that could not be imported ------------------------------------------------------------------


def test_what_was_left_out_of_all_imports_is_said_in_one_sentence() -> None:
    files = [
        file_of(rank, sidecar={"imported": {"left_out": {"a cut line": rank, "no rank": 1000}}})
        for rank in (1, 2)
    ]
    assert list(on_left_out_of_imports(files)) == [
        "2,003 records were left out of the import: 2,000 for no rank; 3 for a cut line."
    ]
    assert list(on_left_out_of_imports([file_of(), file_of(1, sidecar=None)])) == []


def test_of_many_reasons_the_most_frequent_are_said() -> None:
    counts = {f"reason {i}": 10 + (i == 3) for i in range(7)}
    assert left_out_in_words(counts) == (
        "71 records were left out of the import: 11 for reason 3; 10 for reason 0; 10 for reason 1; "
        "10 for reason 2; 10 for reason 4; 20 for other reasons."
    )


def test_one_record_was_left_out() -> None:
    assert left_out_in_words({"x": 1}) == "1 record was left out of the import: 1 for x."
    assert left_out_in_words({}) == ""


# -- overlap ---------------------------------------------------------------------------------------------


def overlap_of(*rows: tuple[int, float | None, float | None, float | None]) -> pd.DataFrame:
    columns = ["rank", "communication_ms", "compute_ms", "exposed_ms"]
    table: pd.DataFrame = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[1:], float))
    return table


def test_ranks_without_own_work_are_named_as_nothing_was_hidden_behind_it() -> None:
    known, unknown = (0, 1.0, 1.0, 1.0), (3, None, None, None)
    (one,) = on_overlap(overlap_of(known, (1, 1.0, None, 1.0), unknown))
    assert one.startswith("Rank 1 logs no work of its own (FORWARD,")
    (several,) = on_overlap(overlap_of((1, 1.0, None, 1.0), (2, 1.0, None, 1.0), unknown))
    assert several.startswith("Ranks 1 and 2 log no work of their own (FORWARD,")
    assert list(on_overlap(overlap_of(known, unknown))) == []


def test_ranks_that_nobody_saw_waiting_are_named() -> None:
    (one,) = on_overlap(overlap_of((1, 1.0, 1.0, None), (2, 1.0, 1.0, 1.0)))
    assert one.startswith("Rank 1 logs neither own work nor who waits")
