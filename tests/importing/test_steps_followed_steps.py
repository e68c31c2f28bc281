"""Step times that grow become timing files that grow, with the rows of one import of the complete files."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from growing_sources import Act, Followed, added, followed, pieces, rows_by_rank
from seeds import seeds
from step_logs import RANKS, STEPS, step_records, write_json_lines

from timing_logger import read_timings
from timing_logger.analysis import hang, stragglers
from timing_logger.errors import LogPathError, NotImportableError
from timing_logger.importing import StepColumns, follow_steps, import_steps
from timing_logger.process.sidecar_files import read_sidecar

COLUMNS = StepColumns(seconds="perf.step_s", parts=["data", "forward"], time="ended")
OF_CSV = StepColumns(ms="ms", parts=["data", "forward"], rest="other", epoch="epoch", work="tokens")
ONE_RANK = StepColumns(seconds="s")


def follow(source: Path, columns: StepColumns, *acts: Act, stops: bool = False) -> Followed:
    """Follow a source into ``out`` beside it."""
    return followed(partial(follow_steps, source, source.parent / "out", columns), *acts, stops=stops)


def line(step: int, rank: int = 0) -> bytes:
    return b'{"rank": %d, "step": %d, "s": 0.5}\n' % (rank, step)


def steps_in(folder: Path) -> list[int]:
    return read_timings(folder).iteration.tolist()


def compared(folder: Path, *, by_instants: bool) -> pd.DataFrame:
    return rows_by_rank(folder, by_instants=by_instants, columns=["iteration", "epoch", "work"])


@pytest.mark.parametrize("seed", seeds(12, few=2))
def test_whatever_is_written_when_the_rows_are_those_of_one_import_of_all(tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    folder, is_csv = tmp_path / "logs", seed % 2 == 1
    folder.mkdir()
    files = (csv_files if is_csv else json_files)(drawn, folder)
    columns = OF_CSV if is_csv else COLUMNS
    made = follow(folder, columns, *pieces(drawn, files)).made
    whole = import_steps(folder, tmp_path / "whole", columns)
    assert (made.ranks, made.rows, made.left_out) == (whole.ranks, whole.rows, whole.left_out)
    pd.testing.assert_frame_equal(
        compared(tmp_path / "out", by_instants=not is_csv),
        compared(tmp_path / "whole", by_instants=not is_csv),
    )


def json_files(drawn: random.Random, folder: Path) -> dict[Path, bytes]:
    """Return logs of JSON in which ranks share files, some lines are none, and the last may have no end."""
    lines: dict[Path, list[bytes]] = {folder / name: [] for name in ("a.jsonl", "b.log", "c.ndjson")}
    for record in step_records():
        path = folder / ("a.jsonl" if record["rank"] < 2 else "b.log" if record["rank"] == 2 else "c.ndjson")
        lines[path].append(json.dumps(record).encode())
        if drawn.random() < 0.05:
            lines[path].append(drawn.choice([b"", b"no JSON", b"[1]", b'{"step": 3}', b"\xff\xfe", b"  \r"]))
    end = drawn.choice([b"", b"\n"])
    return {path: b"\n".join(its) + end for path, its in lines.items()}


def csv_files(drawn: random.Random, folder: Path) -> dict[Path, bytes]:
    """Return logs of CSV, one for each rank, with a mark before, Windows' line ends and a second header."""
    files = {}
    for rank in range(3):
        head = b"step;epoch;ms;data;forward;tokens"
        lines = [b"\xef\xbb\xbf" + head]
        for step in range(40):
            lines.append(
                b"%d;%d;%d;%d;12.5;4096" % (step, step // 20, drawn.randint(40, 60), drawn.randint(5, 9))
            )
            if drawn.random() < 0.1:
                lines.append(drawn.choice([head, b"1;2", b'"1;2;3;4;5;6', b"", b"a;b;c;d;e;f"]))
        files[folder / f"train-rank{rank}.csv"] = b"\r\n".join(lines) + b"\r\n"
    return files


@pytest.mark.slow("rows of each look are quick, and what is said of an import that was stopped")
def test_while_it_grows_the_slow_rank_is_named_and_the_run_is_said_to_go_on_and_not_to_have_ended(
    tmp_path: Path,
) -> None:
    log = write_json_lines(tmp_path / "train.jsonl", step_records())
    seen = []

    def look() -> None:
        rows = read_timings(tmp_path / "out")
        seen.append((stragglers(rows).ranks, hang(rows, now_unix_s=_newest_s(tmp_path / "out"))))

    follow(log, COLUMNS, look)
    [(ranks, end)] = seen
    assert (ranks, end.state) == ((2,), "running")
    assert "is not told by what it was imported from" in end.sentences[0]


def _newest_s(folder: Path) -> float:
    sidecar = read_sidecar(folder / "timing-rank0.csv")
    assert sidecar is not None
    return float(sidecar["updated_unix_ns"]) / 1e9 + 1.0


def test_of_an_import_that_was_killed_nobody_is_said_to_be_killed_and_nothing_to_hang(tmp_path: Path) -> None:
    log = write_json_lines(tmp_path / "train.jsonl", step_records())
    seen = []

    def look() -> None:
        rows = read_timings(tmp_path / "out")
        seen.append(hang(rows, now_unix_s=_newest_s(tmp_path / "out") + 3600.0))

    follow(log, COLUMNS, look)
    assert (seen[0].state, seen[0].gone, seen[0].culprits) == ("unknown", (), ())
    assert "had not ended when it was last heard of" in seen[0].sentences[0]


def test_an_import_that_was_stopped_closes_its_files_and_does_not_say_how_the_run_ended(
    tmp_path: Path,
) -> None:
    log = write_json_lines(tmp_path / "train.jsonl", step_records())
    follow(log, COLUMNS, stops=True)
    rows = read_timings(tmp_path / "out")
    sidecars = [file["sidecar"] for file in rows.attrs["files"]]
    assert [(one["closed"], one["imported"]["goes_on"]) for one in sidecars] == [(True, False)] * RANKS
    assert hang(rows).state == "unknown"


def test_a_rank_that_has_no_new_rows_for_long_is_not_taken_for_gone(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    write_json_lines(folder / "old.jsonl", [{"rank": 0, "step": 1, "s": 0.5, "at": 1_770_388_245}])
    write_json_lines(folder / "new.jsonl", [{"rank": 1, "step": 1, "s": 0.5, "at": 1_770_398_245}])
    ends = []
    columns = StepColumns(seconds="s", time="at")
    follow(
        folder, columns, lambda: ends.append(hang(read_timings(tmp_path / "out"), now_unix_s=1_795_000_000.0))
    )
    assert (ends[0].state, ends[0].gone) == ("running", ())


def test_a_file_that_comes_later_and_a_rank_that_comes_later_are_read(tmp_path: Path) -> None:
    made = follow(
        tmp_path / "*.jsonl", ONE_RANK, added(tmp_path / "a.jsonl", line(1)),
        added(tmp_path / "b.jsonl", line(1, rank=5)), added(tmp_path / "a.jsonl", line(2)),
    ).made  # fmt: skip
    assert (made.ranks, made.rows) == ([0, 5], 3)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "emptied": (lambda log: log.write_bytes(line(3)), "was cut or written anew"),
    "renamed": (lambda log: log.rename(log.with_name("train-1.jsonl")), "was renamed or removed"),
    "rotated": (
        lambda log: (log.rename(log.with_name("train-1.jsonl")), log.write_bytes(line(3))),
        "was replaced by another file",
    ),
}


@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
def test_a_file_that_is_no_longer_what_it_was_is_followed_no_longer_and_that_is_said(
    tmp_path: Path, change: Callable[[Path], object], said: str
) -> None:
    log, other = tmp_path / "train.jsonl", tmp_path / "train-other.jsonl"
    log.write_bytes(line(1) + line(2))
    changed = partial(change, log)
    found = follow(tmp_path / "train*.jsonl", ONE_RANK, changed, added(log, line(4)), added(other, line(5)))
    assert steps_in(tmp_path / "out") == [1, 2, 5]
    again = "Import again, into another folder, to have all rows."
    assert found.said == [f"{log}: {said}, and is followed no longer. {again}"]
    assert f"Files not followed to their end: 1, such as {log}. {again}" in found.made.notes


def test_a_line_without_an_end_is_counted_where_its_file_is_followed_no_longer(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(line(0) + b'{"rank": 0, "st')
    made = follow(log, ONE_RANK, lambda: log.write_bytes(line(7))).made
    assert (made.rows, made.left_out) == (1, {"a last line without its end": 1})


def test_a_log_that_is_compressed_is_refused_at_first_and_left_out_later(tmp_path: Path) -> None:
    packed, log = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl"
    packed.write_bytes(gzip.compress(line(1)))
    with pytest.raises(NotImportableError, match="is compressed, and only files that are appended to"):
        follow(tmp_path, ONE_RANK)
    content = packed.read_bytes()
    packed.unlink()
    log.write_bytes(line(2))
    found = follow(tmp_path / "*.jsonl*", ONE_RANK, added(packed, content), added(log, line(3)))
    assert (found.made.rows, [f"{packed}: is left out: " in one for one in found.said]) == (2, [True])


def test_a_number_that_may_go_on_is_left_out_where_the_import_is_stopped(tmp_path: Path) -> None:
    log = tmp_path / "train.csv"
    log.write_bytes(b"rank,step,s\n0,1,0.5\n0,2,0.2")
    made = follow(log, ONE_RANK, stops=True).made
    assert (made.rows, made.left_out) == (1, {"a last line without its end": 1})


def test_what_it_makes_is_no_source_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "train.csv"
    log.write_bytes(b"rank,step,s,iteration\n0,1,0.5,1\n")
    pattern = tmp_path / "**" / "*.csv"
    found = followed(partial(follow_steps, pattern, tmp_path / "out", ONE_RANK), lambda: None)
    assert (found.made.rows, found.said) == (1, [])


def test_a_file_of_another_kind_is_refused_at_first_and_left_out_later(tmp_path: Path) -> None:
    other = b'{"note": "no step"}\n'
    (tmp_path / "a.jsonl").write_bytes(other)
    with pytest.raises(NotImportableError, match="no column 'step'"):
        follow(tmp_path / "*.jsonl", ONE_RANK)
    assert not (tmp_path / "out").exists()
    (tmp_path / "a.jsonl").write_bytes(line(1))
    found = follow(
        tmp_path / "*.jsonl",
        ONE_RANK,
        added(tmp_path / "b.jsonl", other),
        added(tmp_path / "a.jsonl", line(2)),
    )
    assert (found.made.rows, ["is left out" in one for one in found.said]) == (2, [True])


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    log = write_json_lines(tmp_path / "train.jsonl", step_records())
    follow(log, COLUMNS)
    with pytest.raises(LogPathError, match="is not empty"):
        follow(log, COLUMNS)


@pytest.mark.parametrize(
    ("output", "said"),
    [("logs/a.jsonl", "exists and is no folder"), ("logs/a.jsonl/out", "cannot be made: Not a directory")],
)
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, output: str, said: str) -> None:
    log = tmp_path / "logs" / "a.jsonl"
    log.parent.mkdir()
    log.write_bytes(line(1))
    with pytest.raises(LogPathError, match=said):
        followed(partial(follow_steps, log, tmp_path / output, ONE_RANK))


def test_a_folder_that_was_there_or_in_which_others_put_something_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for output, act in (("there", lambda: None), ("of/run", (tmp_path / "of" / "note").touch)):
        with pytest.raises(NotImportableError, match="Nothing was made"):
            followed(partial(follow_steps, tmp_path / "none", tmp_path / output, ONE_RANK), act)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["note", "of", "there"]


def test_where_nothing_comes_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(NotImportableError, match="no record of steps could be read from 0 files"):
        follow(tmp_path / "logs" / "*.jsonl", ONE_RANK)
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_bytes(line(1))
    assert follow(tmp_path / "*.jsonl", ONE_RANK).made.rows == 1


def test_an_import_ends_once_nothing_was_added_for_long_enough(tmp_path: Path) -> None:
    from timing_logger.importing import Until

    log = write_json_lines(tmp_path / "train.jsonl", step_records())
    made = follow_steps(log, tmp_path / "out", COLUMNS, Until(idle_s=0.05, interval_s=0.01))
    assert made.rows == 2 * RANKS * STEPS


@pytest.mark.slow("what a log without instants tells is quick in this file")
def test_watch_sees_all_ranks_of_a_log_without_instants_though_the_rows_of_a_slow_one_run_ahead(
    tmp_path: Path,
) -> None:
    from timing_logger.live.watcher import Watcher

    lines = [
        b'{"rank": %d, "step": %d, "data": %f}\n' % (rank, step, 0.2 if rank == 2 else 0.1)
        for step in range(400)
        for rank in range(4)
    ]
    log = tmp_path / "train.jsonl"
    log.write_bytes(b"".join(lines[:800]))
    watcher, seen = Watcher(tmp_path / "out", window_s=1.0), []
    acts: list[Act] = [lambda: seen.append(watcher.snapshot())]
    follow(log, StepColumns(parts=["data"]), *acts, added(log, b"".join(lines[800:])), *acts)
    verdicts = [(one.verdict.verdict, one.verdict.ranks, one.end.state, one.is_over) for one in seen]
    assert verdicts == [("rank", (2,), "running", False)] * 2
    assert [now.iteration for now in seen[1].ranks] == [399] * 4
