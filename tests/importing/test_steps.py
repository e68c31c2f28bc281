"""Step times that a trainer logged become timing files, which all analyses read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from slow import slow
from step_logs import BEGAN_UNIX_S, RANKS, STEP_S, STEPS, step_records, write_json_lines

from timing_logger import read_timings
from timing_logger.analysis import account, stragglers
from timing_logger.errors import ConfigurationError, LogPathError, NotImportableError
from timing_logger.importing import StepColumns, import_steps

WITH_PARTS = StepColumns(seconds="perf.step_s", parts=["data", "forward"], time="ended")


def write_csv(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def imported(source: Path, columns: StepColumns) -> pd.DataFrame:
    import_steps(source, source.parent / "out", columns)
    return read_timings(source.parent / "out")


@pytest.mark.slow("what rows say of a slow rank is quick, of traces of torch.profiler among others")
def test_the_rank_that_is_slow_in_one_part_of_its_steps_is_named(tmp_path: Path) -> None:
    log = write_json_lines(tmp_path / "train.jsonl", step_records())
    verdict = stragglers(imported(log, WITH_PARTS))
    assert (verdict.verdict, verdict.ranks, verdict.operation) == ("rank", (2,), "DATA")


def test_a_run_whose_steps_hide_the_waits_is_not_called_healthy(tmp_path: Path) -> None:
    log = write_json_lines(tmp_path / "train.jsonl", step_records())
    verdict = stragglers(imported(log, StepColumns(seconds="perf.step_s")))
    assert (verdict.verdict, verdict.judged) == ("healthy", False)
    assert type(verdict.why).__name__ == "CommunicationNotTold"


def test_each_part_of_a_step_is_a_row_and_the_rest_where_it_is_asked_for(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "train.csv", "rank,step,total,data,forward", "0,7,100,20,30")
    rows = imported(log, StepColumns(ms="total", parts=["data", "forward"], rest="other"))
    assert rows[["iteration", "operation", "elapsed_ms"]].values.tolist() == [
        [7, "DATA", 20.0], [7, "FORWARD", 30.0], [7, "OTHER", 50.0],
    ]  # fmt: skip
    assert rows.start_counter.diff()[1:].round(9).tolist() == [0.02, 0.03]


def test_a_step_ends_at_the_instant_that_is_logged(tmp_path: Path) -> None:
    log = write_json_lines(tmp_path / "train.jsonl", step_records()[:1])
    rows = imported(log, StepColumns(seconds="perf.step_s", time="ended"))
    began_s = rows.timestamp[0].timestamp()
    assert began_s == pytest.approx(BEGAN_UNIX_S, abs=2e-6)
    assert rows.elapsed_ms[0] == pytest.approx(STEP_S * 1e3)


@pytest.mark.parametrize(
    "stated", ["1770388245.5", "1770388245500", "1770388245500000", "2026-02-06T14:30:45.5Z",
               "2026-02-06T15:30:45.5+01:00", "2026-02-06 14:30:45.5"],
)  # fmt: skip
def test_an_instant_is_unix_time_in_any_unit_or_iso_8601(tmp_path: Path, stated: str) -> None:
    log = write_csv(tmp_path / "train.csv", "rank;step;s;at", f"0;1;0.5;{stated}")
    rows = imported(log, StepColumns(seconds="s", time="at", time_is_start=True))
    assert str(rows.timestamp[0]) == "2026-02-06 14:30:45.500000+00:00"


def test_steps_without_instants_follow_each_other(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "train.tsv", "rank\tstep\ts", "0\t1\t0.5", "0\t2\t0.25", "0\t3\t0.5")
    rows = imported(log, StepColumns(seconds="s"))
    assert (rows.start_counter[1:].to_numpy() == rows.end_counter[:-1].to_numpy()).all()
    assert rows.attrs["files"][0]["sidecar"]["imported"]["not_told"] == [
        "communication", "waits", "instants", "clocks", "end",
    ]  # fmt: skip


def test_steps_without_instants_have_an_account(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "train.csv", "rank,step,s,data", "0,1,0.5,0.25", "0,2,0.5,0.25")
    found = account(imported(log, StepColumns(seconds="s", parts=["data"], rest="other")))
    assert found.set_index("operation")["share"].to_dict() == pytest.approx({"DATA": 0.5, "OTHER": 0.5})


def test_the_rank_may_stand_in_the_name_of_each_file(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for rank in (0, 11):
        write_csv(folder / f"host3-rank{rank}.csv", "step,s", "1,0.5")
    assert import_steps(folder, tmp_path / "a", StepColumns(seconds="s")).ranks == [0, 11]
    of_host = StepColumns(seconds="s", rank_in_name=r"host(\d+)")
    assert import_steps(folder / "*rank0.csv", tmp_path / "b", of_host).ranks == [3]


def test_work_and_epochs_are_columns_of_the_rows(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "train.csv", "rank,step,epoch,s,tokens", "0,1,2,0.5,4096")
    rows = imported(log, StepColumns(seconds="s", epoch="epoch", work="tokens"))
    assert rows[["epoch", "work"]].values.tolist() == [[2, 4096.0]]


@pytest.mark.parametrize("compressed", ["gzip", "zstandard"])
def test_compressed_logs_are_read_as_their_first_bytes_say(tmp_path: Path, compressed: str) -> None:
    content = "".join(json.dumps(record) + "\n" for record in step_records()[:40]).encode()
    log = tmp_path / "train.jsonl"  # which says nothing of it
    compress = gzip.compress if compressed == "gzip" else pytest.importorskip("zstandard").compress
    log.write_bytes(compress(content))
    assert len(imported(log, StepColumns(seconds="perf.step_s"))) == 40


BAD: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "a line that is no JSON"),
    "too deep": ("[" * 100_000, "a line that is no JSON"),
    "a list": ("[1]", "a line that is no JSON object"),
    "no step": ('{"rank": 1, "s": 1}', "a record without a value of 'step'"),
    "a negative rank": ('{"rank": -1, "step": 1, "s": 1}', "a value of 'rank' that is no whole number"),
    "a huge rank": ('{"rank": 1e300, "step": 1, "s": 1}', "a value of 'rank' that is no whole number"),
    "a bool": ('{"rank": true, "step": 1, "s": 1}', "a value of 'rank' that is no whole number"),
    "half a step": ('{"rank": 1, "step": 1.5, "s": 1}', "a value of 'step' that is no whole number"),
    "NaN": ('{"rank": 1, "step": 1, "s": NaN}', "a value of 's' that is no duration"),
    "negative": ('{"rank": 1, "step": 1, "s": -1}', "a value of 's' that is no duration"),
    "text": ('{"rank": 1, "step": 1, "s": "fast"}', "a value of 's' that is no duration"),
    "too long": (" " * 2**20 + "x", "a line of more than 1 MiB"),
    "digits": ('{"rank": 1, "step": ' + "9" * 5000 + ', "s": 1}', "a line that is no JSON"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_used_is_counted_with_its_reason(tmp_path: Path, what: str) -> None:
    line, reason = BAD[what]
    log = write_json_lines(tmp_path / "train.jsonl", [{"rank": 0, "step": 1, "s": 0.5}], line)
    made = import_steps(log, tmp_path / "out", StepColumns(seconds="s"))
    assert made.rows == 1
    [(told, n)] = made.left_out.items()
    assert (told[: len(reason)], n) == (reason, 1)


def test_lines_that_are_no_utf_8_and_the_end_of_a_cut_file_are_counted(tmp_path: Path) -> None:
    good = b'{"rank": 0, "step": 1, "s": 0.5}\n'
    log = tmp_path / "train.jsonl.gz"
    log.write_bytes(gzip.compress(good + b'{"rank": 0, "step": "\xff"}\n' + good * 200)[:-9])
    made = import_steps(log, tmp_path / "out", StepColumns(seconds="s"))
    assert set(made.left_out) == {
        "a line that is no UTF-8", "the end of a compressed file that is cut or damaged",
    }  # fmt: skip
    assert made.rows > 1


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b"", id="cut"),
        slow(b"no frame at all" * 10_000, "of a followed file it is quick", id="damaged"),
    ],
)
def test_of_a_file_of_zstandard_what_can_be_read_is_used(tmp_path: Path, damage: bytes) -> None:
    compress = pytest.importorskip("zstandard").compress
    lines = "".join(f'{{"rank": 0, "step": {i}, "s": 0.{i * 7919 % 99_991:05}}}\n' for i in range(6_000))
    log = tmp_path / "train.jsonl"
    log.write_bytes(compress(lines.encode())[:-1_000] + damage)
    made = import_steps(log, tmp_path / "out", StepColumns(seconds="s"))
    assert 1000 < made.rows < 6_000
    assert made.left_out == {"the end of a compressed file that is cut or damaged": 1}


def test_many_kinds_of_trouble_do_not_make_many_entries(tmp_path: Path) -> None:
    from timing_logger.importing.imported import MOST_REASONS, LeftOut

    left_out = LeftOut()
    for i in range(5 * MOST_REASONS):
        left_out.add(f"reason {i}")
    assert (len(left_out), left_out.total()) == (MOST_REASONS + 1, 5 * MOST_REASONS)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "nothing names the duration"),
    "both": ({"seconds": "a", "ms": "b"}, "both name the duration"),
    "rest alone": ({"seconds": "a", "rest": "b"}, "rest: it needs parts"),
    "no pattern": ({"seconds": "a", "rank_in_name": "("}, "rank_in_name='\\('"),
    "no group": ({"seconds": "a", "rank_in_name": "rank"}, "must have one group"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_columns_that_contradict_each_other_are_refused(what: str) -> None:
    given, said = REFUSED[what]
    with pytest.raises(ConfigurationError, match=said):
        StepColumns(**given)


def test_a_column_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "train.csv", "rank,step,time_s", "0,1,0.5")
    with pytest.raises(
        NotImportableError, match=r"no column 'seconds'. Its columns are 'rank', 'step', 'time_s'"
    ):
        import_steps(log, tmp_path / "out", StepColumns(seconds="seconds"))


def test_a_file_that_tells_no_rank_is_refused(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "train.csv", "step,s", "1,0.5")
    with pytest.raises(NotImportableError, match="nothing tells the rank"):
        import_steps(log, tmp_path / "out", StepColumns(seconds="s"))


def test_a_file_without_a_usable_record_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "train.csv", "rank,step,s", "a,b,c")
    with pytest.raises(NotImportableError, match="no step could be read from 1 file"):
        import_steps(log, tmp_path / "new" / "out", StepColumns(seconds="s"))
    assert [path.name for path in tmp_path.iterdir()] == ["train.csv"]


@pytest.mark.parametrize("path", ["nothing", "*.jsonl", "empty"])
def test_a_path_that_leads_nowhere_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotImportableError, match=r"^paths: "):
        import_steps(tmp_path / path, tmp_path / "out", StepColumns(seconds="s"))


def test_a_folder_that_has_something_in_it_is_left_alone(tmp_path: Path) -> None:
    log = write_json_lines(tmp_path / "train.jsonl", step_records())
    with pytest.raises(LogPathError, match="is not empty"):
        import_steps(log, tmp_path, StepColumns(seconds="perf.step_s"))


def test_an_empty_folder_is_taken_and_a_file_is_not(tmp_path: Path) -> None:
    log = write_json_lines(tmp_path / "train.jsonl", step_records())
    (tmp_path / "out").mkdir()
    assert import_steps(log, tmp_path / "out", StepColumns(seconds="perf.step_s")).rows == RANKS * STEPS
    with pytest.raises(LogPathError, match="is no folder"):
        import_steps(log, log, StepColumns(seconds="perf.step_s"))


def test_a_log_with_more_steps_than_fit_into_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from timing_logger.errors import TooLargeError

    monkeypatch.setattr("timing_logger.importing.steps.MOST_STEPS", 10)
    log = write_json_lines(tmp_path / "train.jsonl", step_records())
    with pytest.raises(TooLargeError, match="more than 10 steps"):
        import_steps(log, tmp_path / "out", StepColumns(seconds="perf.step_s"))
