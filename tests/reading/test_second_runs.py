"""Rows of two runs, or two ranks, that somebody joined in one file or folder are said to be that."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from read_folders import read_one
from slow import slow
from timing_files import content, record, write_sidecar, write_timing_file

from timing_logger import read_timings
from timing_logger.analysis import stragglers
from timing_logger.analysis.rows.files import different_runs
from timing_logger.cli import main
from timing_logger.reading.content import RowsOfFiles
from timing_logger.reading.csv_lines import parse_timings
from timing_logger.reading.second_runs import have_recurring_numbers, second_run
from timing_logger.schema.record import HEADER, Record
from timing_logger.words.not_told import reason

HOUR_S = 3600.0
QUESTIONS = ("bandwidth", "overlap", "summary", "waits", "stragglers")


def rows_of(rank: int, start_s: float, n: int = 20, **fields: object) -> list[Record]:
    """The rows of a rank: 20 steps of its own work and an allreduce, in which it waits for the others."""
    found = []
    for step in range(n):
        begin_s = start_s + step / 10
        found.append(record("FORWARD", begin_s, 30 + rank, iteration=step, group="", group_size=None))
        found.append(
            record(
                "ALLREDUCE", begin_s + 0.03 + rank / 1000, 20 - rank, iteration=step, seq=step, group_size=2,
            )._replace(**fields)
        )  # fmt: skip
    return found


def write(folder: Path, rank: int, data: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"timing-rank{rank}.csv"
    path.write_bytes(data)
    return path


def cat(*files: list[Record]) -> bytes:
    return b"".join(map(content, files))


def bare(records: list[Record]) -> bytes:
    return content(records).partition(b"\n")[2]


def without_header(*files: list[Record]) -> bytes:
    return HEADER.encode() + b"".join(map(bare, files))


def on_another_host(data: bytes) -> bytes:
    """The counters, which begin when a machine does, of a machine that was started at another time."""
    head, *lines = data.decode().splitlines()
    changed = []
    for line in lines:
        cells = line.split(",")
        cells[8:10] = [f"{float(cell) + 5000:.9f}" for cell in cells[8:10]]
        changed.append(",".join(cells))
    return "\n".join([head, *changed, ""]).encode()


def said(folder: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a second header is a damaged line
        return different_runs(read_timings(folder).attrs["files"])


JOINED: dict[str, tuple[Callable[[int], bytes], str]] = {
    "two runs, one after the other": (
        lambda rank: cat(rows_of(rank, 1), rows_of(rank, 33)), "below a second header, after 40 rows"
    ),
    "two ranks": (
        lambda rank: cat(rows_of(rank, 1), rows_of(rank + 1, 1)), "below a second header, after 40 rows"
    ),
    "two ranks, by a program that knows of headers": (
        lambda rank: without_header(rows_of(rank, 1), rows_of(rank + 1, 1)),
        "in 20 of its collectives one thread is twice at a time",
    ),
    "two runs, hours apart": (
        lambda rank: without_header(rows_of(rank, 1), rows_of(rank, 1 + HOUR_S)),
        "the numbers of its collectives begin again 3598 s later",
    ),
    "a run and one that ended early": (
        lambda rank: without_header(rows_of(rank, 1), rows_of(rank, 1 + HOUR_S, n=3)),
        "the numbers of its collectives begin again 3598 s later",
    ),
    "two runs on two hosts": (
        lambda rank: on_another_host(content(rows_of(rank, 1))) + bare(rows_of(rank, 20)),
        "its rows are of two clocks that are 5000 s apart",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("joined", "why"), JOINED.values(), ids=JOINED)
def test_rows_of_two_that_were_joined_in_a_file_are_said_to_be_so(
    joined: Callable[[int], bytes], why: str, tmp_path: Path
) -> None:
    write(tmp_path / "logs", 0, joined(0))
    assert said(tmp_path / "logs").startswith(f"the file of rank 0 holds the rows of two processes: {why}")


def test_rows_without_numbers_below_a_second_header_are_of_another_run_if_iterations_go_back(
    tmp_path: Path,
) -> None:
    rows = [[row._replace(seq=None) for row in rows_of(0, start_s)] for start_s in (1, 20)]
    write(tmp_path, 0, cat(*rows))
    assert "below a second header" in said(tmp_path)
    write(tmp_path, 0, cat(rows[0], [row._replace(epoch=1) for row in rows[1]]))
    assert said(tmp_path) == ""


@pytest.mark.parametrize("whose", ["the first", slow("the second", "as of the first")])
def test_rows_from_outside_the_life_of_their_process_are_of_another(whose: str, tmp_path: Path) -> None:
    path = write(tmp_path / "logs", 0, without_header(rows_of(0, 1), rows_of(0, 1 + HOUR_S)))
    start_s = 0.0 if whose == "the first" else HOUR_S
    write_sidecar(path, start_s=start_s, end_s=start_s + 10)
    when = "after its process had ended" if whose == "the first" else "before its process began"
    assert f"20 of its collectives are from {when}, as its sidecar says" in said(tmp_path / "logs")


@pytest.fixture
def of_two_runs(tmp_path: Path) -> Path:
    for rank in range(2):
        write(tmp_path / "logs", rank, without_header(rows_of(rank, 1), rows_of(rank, 1 + HOUR_S)))
    return tmp_path / "logs"


def test_nobody_is_judged_by_rows_of_two_runs(of_two_runs: Path) -> None:
    verdict = stragglers(read_timings(of_two_runs))
    assert (verdict.judged, verdict.ranks) == (False, ())
    assert "the files look like those of different runs: the file of rank 0 holds" in reason(verdict.why)


@pytest.mark.slow("what is said is quick, and that nobody is judged; it comes along with the rows")
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_says_that_rows_are_of_two_runs(
    question: str, of_two_runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([question, str(of_two_runs)])
    assert "begin again 3598 s later" in " ".join(capsys.readouterr().out.split())


# -- a folder ----------------------------------------------------------------------------------------------


def test_files_of_two_short_runs_on_one_machine_are_said_to_be_so(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, rows_of(0, 1))
    write_timing_file(tmp_path, 1, rows_of(1, 20))
    assert (
        said(tmp_path) == "rank 0 had ended 17 s before rank 1 began, though both have the same collectives"
    )


def test_ranks_that_record_one_after_the_other_are_of_one_run(tmp_path: Path) -> None:
    """Of a pipeline, each with a group of its own, or rows of a few iterations."""
    for rank in range(3):
        write_timing_file(tmp_path, rank, rows_of(rank, 1 + 20 * rank, group=f"stage {rank}"))
    assert said(tmp_path) == ""


def test_ranks_that_lack_each_others_rows_are_of_one_run(tmp_path: Path) -> None:
    early, late = rows_of(0, 1), rows_of(1, 20)
    write_timing_file(tmp_path, 0, early)
    write_timing_file(
        tmp_path, 1, [row._replace(seq=None if row.seq is None else row.seq + 19) for row in late]
    )
    assert said(tmp_path) == ""


# -- what one process does itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("pause_s", [0.0, 30.0, HOUR_S])
def test_a_process_that_trains_twice_is_one(pause_s: float, tmp_path: Path) -> None:
    path = write(tmp_path, 0, content([*rows_of(0, 1), *rows_of(0, 4 + pause_s)]))
    write_sidecar(path, start_s=0, end_s=10 + pause_s)
    assert said(tmp_path) == ""


@pytest.mark.parametrize("pause_s", [0.0, 30.0])
def test_a_group_that_was_made_again_is_no_second_run(pause_s: float, tmp_path: Path) -> None:
    write(tmp_path, 0, content([*rows_of(0, 1), *rows_of(0, 4 + pause_s)]))
    assert said(tmp_path) == ""


def test_a_group_that_was_made_again_after_a_long_pause_is_no_second_run_while_another_goes_on(
    tmp_path: Path,
) -> None:
    others = [record("BARRIER", 0.5, seq=0, group="all"), record("BARRIER", HOUR_S, seq=1, group="all")]
    write(tmp_path, 0, content([*rows_of(0, 1), *rows_of(0, 4 + HOUR_S), *others]))
    assert said(tmp_path) == ""


def test_a_long_pause_is_no_second_run(tmp_path: Path) -> None:
    later = [
        row._replace(seq=None if row.seq is None else row.seq + 20, iteration=50)
        for row in rows_of(0, HOUR_S)
    ]
    write(tmp_path, 0, content([*rows_of(0, 1), *later]))
    assert said(tmp_path) == ""


@pytest.mark.parametrize("numbered", [True, False])
def test_the_parts_of_a_file_may_be_joined(numbered: bool, tmp_path: Path) -> None:
    rows = [*rows_of(0, 1), record("EPOCH", 0.5, 5000)]
    rows = rows if numbered else [row._replace(seq=None) for row in rows]
    df = read_one(tmp_path, cat(rows[:20], rows[20:]))
    assert (len(df) - 1, different_runs(df.attrs["files"])) == (40, "")


@pytest.mark.parametrize("columns", [["rank", "elapsed_ms"], ["operation", "seq"]])
def test_without_the_columns_that_tell_nothing_is_said(columns: list[str], tmp_path: Path) -> None:
    write(tmp_path, 0, without_header(rows_of(0, 1), rows_of(0, 1 + HOUR_S)))
    assert different_runs(read_timings(tmp_path, columns=columns).attrs["files"]) == ""


def test_numbers_of_ones_own_that_recur_at_other_times_say_nothing(tmp_path: Path) -> None:
    """As of who passes the step as ``seq`` for each of its layers."""
    rows = [
        record("ALLREDUCE", 1 + step + layer / 10, 50, seq=step, layer_name=str(layer))
        for step in range(9)
        for layer in range(3)
    ]
    write(tmp_path, 0, content(rows))
    assert said(tmp_path) == ""


def test_both_engines_say_the_same(tmp_path: Path) -> None:
    write(tmp_path, 0, without_header(rows_of(0, 1), rows_of(0, 1 + HOUR_S)))
    by_each = [read_timings(tmp_path, engine=engine).attrs["files"] for engine in ("pandas", "pyarrow")]
    assert by_each[0] == by_each[1]
    assert isinstance(by_each[0], list)
    assert pd.notna(by_each[0][0]["wall_minus_counter_s"])


# -- below a second header -------------------------------------------------------------------------------

AGAIN = "below a second header, after 10 rows, it begins again"


def below_a_header(*files: list[Record], without: str = "") -> str:
    """What is said of two times five steps, with a header between them."""
    table = parse_timings(content([row for rows in files for row in rows])).frame
    return second_run(table.drop(columns=without.split()), None, [10])


def later(rows: list[Record], steps: int, *, numbers: int | None = None, epoch: int = 0) -> list[Record]:
    """The rows as those of later steps, and their collectives' numbers raised as much or otherwise."""
    raised = steps if numbers is None else numbers
    return [
        row._replace(
            iteration=None if row.iteration is None else row.iteration + steps,
            seq=None if row.seq is None else row.seq + raised,
            epoch=epoch,
        )
        for row in rows
    ]


FIRST, SECOND = rows_of(0, 1, 5), rows_of(0, 2, 5)


@pytest.mark.parametrize("without", ["", "iteration", "epoch"])
@pytest.mark.parametrize(("numbers", "said"), [(0, AGAIN), (4, AGAIN), (5, "")])
@pytest.mark.parametrize("steps", [0, 5])
def test_numbers_tell_whether_it_begins_again_whatever_the_iterations_are(
    numbers: int, said: str, steps: int, without: str
) -> None:
    assert below_a_header(FIRST, later(SECOND, steps, numbers=numbers), without=without) == said


@pytest.mark.parametrize(("steps", "epoch", "said"), [
    (0, 0, AGAIN), (2, 0, AGAIN), (3, 0, ""), (5, 0, ""), (0, 1, ""),
])  # fmt: skip
def test_without_numbers_iterations_tell_that_go_back_by_more_than_one_in_an_epoch(
    steps: int, epoch: int, said: str
) -> None:
    second = later(SECOND, steps, epoch=epoch)
    assert below_a_header(FIRST, second, without="seq") == said
    unnumbered = [[row._replace(seq=None) for row in rows] for rows in (FIRST, second)]
    assert below_a_header(*unnumbered) == said
    for column in ("iteration", "epoch"):
        assert below_a_header(*unnumbered, without=column) == ""


def test_rows_of_no_iteration_and_no_number_tell_nothing() -> None:
    bare_rows = [[row._replace(seq=None, iteration=None) for row in rows] for rows in (FIRST, SECOND)]
    assert below_a_header(*bare_rows) == ""


@pytest.mark.parametrize(("ahead_s", "said"), [(50, ""), (70, AGAIN)])
def test_a_counter_that_goes_back_by_more_than_a_minute_is_of_another_process(
    ahead_s: int, said: str
) -> None:
    first, second = rows_of(0, 102 + ahead_s, 5), later(rows_of(0, 102, 5), 5)
    assert below_a_header(first, second) == said
    assert below_a_header(first, second, without="seq iteration") == said


# -- numbers that occur twice ----------------------------------------------------------------------------


def twice(*after_ms: float, fields: dict[str, Any] | None = None, **second: Any) -> str:
    """What is said of collectives of 500 ms that occur again so many ms after they began."""
    rows = []
    for seq, ms in enumerate(after_ms):
        first = record("ALLREDUCE", 2.0 * seq, 500.0, seq=seq)._replace(**(fields or {}))
        again = record("ALLREDUCE", 2.0 * seq + ms / 1000, 500.0, seq=seq)
        rows += [first, again._replace(**(fields or {}), **second)]
    return second_run(parse_timings(content(rows)).frame, None, [])


@pytest.mark.parametrize(
    ("after_ms", "n_at_once"),
    [((100,), 0), ((100, 100), 2), ((100, 100, 800), 2), ((100, 100, 800, 800), 0), ((500, 500), 0)],
)
def test_a_thread_that_is_in_several_and_most_of_them_twice_at_a_time_is_of_two_processes(
    after_ms: tuple[float, ...], n_at_once: int
) -> None:
    said = f"in {n_at_once} of its collectives one thread is twice at a time" if n_at_once else ""
    assert twice(*after_ms) == said


@pytest.mark.parametrize("second", [{"thread": "other"}, {"operation": "BCAST"}, {"clock": "device"}])
def test_calls_that_may_overlap_say_nothing(second: dict[str, Any]) -> None:
    assert twice(100, 100, 100, **second) == ""


@pytest.mark.parametrize("fields", [{"operation": "BCAST"}, {"clock": "device"}])
def test_calls_of_a_kind_that_does_not_block_say_nothing(fields: dict[str, Any]) -> None:
    assert twice(100, 100, 100, fields=fields) == ""


@pytest.mark.parametrize(("numbers", "recur"), [((3, 4), False), ((3, 3), True), ((3, 4, 3), True)])
def test_the_files_in_which_a_number_recurs_are_found(numbers: Sequence[int], recur: bool) -> None:
    of_one = [record(seq=seq) for seq in numbers]
    other = [record(seq=3), record(seq=3, group="pair"), record("SEND", seq=3), record("SEND", seq=3)]
    frame = parse_timings(content([*of_one, *other])).frame
    found = have_recurring_numbers(frame, RowsOfFiles([len(of_one), len(other)]))
    assert found.tolist() == [recur, False]


def test_a_wait_has_the_number_of_its_collective_and_is_none_itself() -> None:
    frame = parse_timings(content([record(seq=3), record("WAIT", seq=3)])).frame
    assert have_recurring_numbers(frame, RowsOfFiles([2])).tolist() == [False]


def test_a_number_that_recurs_above_a_header_says_nothing_of_what_is_below() -> None:
    first = [record("ALLREDUCE", 1.0 + i, seq=seq) for i, seq in enumerate((0, 1, 1))]
    below = [record("ALLREDUCE", 5.0, seq=2)]
    frame = parse_timings(content([*first, *below])).frame
    assert second_run(frame, None, [3]) == ""


def test_the_first_row_below_a_header_tells_that_it_begins_again() -> None:
    rows = [record("ALLREDUCE", 1.0 + i, seq=seq) for i, seq in enumerate((0, 1, 1, 2))]
    frame = parse_timings(content(rows)).frame
    assert second_run(frame, None, [2]) == "below a second header, after 2 rows, it begins again"


@pytest.mark.parametrize("lacking", ["above", "below"])
def test_iterations_on_one_side_of_a_header_only_tell_nothing(lacking: str) -> None:
    first, second = ([row._replace(seq=None, iteration=9) for row in rows] for rows in (FIRST, SECOND))
    if lacking == "above":
        first = [row._replace(iteration=None) for row in first]
    else:
        second = [row._replace(iteration=None) for row in second]
    assert below_a_header(first, second) == ""
