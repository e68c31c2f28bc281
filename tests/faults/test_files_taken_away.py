"""A timing file that somebody deletes, moves, replaces or cuts while it is written, or whose descriptor is
closed: rows go on in a new part, what is gone is counted and said, and nobody else's file is touched."""

from __future__ import annotations

import json
import logging
import os
import random
import stat
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import rows, run_python
from sidecars import remove_folder
from slow import slow

from timing_logger import TimingLogger, read_timings
from timing_logger.schema.record import HEADER
from timing_logger.schema.sidecar import Counters
from timing_logger.schema.timing_files import TimingFile, sidecar_path
from timing_logger.sinks.jsonl import JsonlSink

BEFORE, AFTER = 10, 5

Harm = Callable[[Path], None]


def record(logger: TimingLogger, n_records: int, first: int = 0) -> None:
    for iteration in range(first, first + n_records):
        logger.record_timing("A", 1.0, iteration=iteration)


def path_of(logger: TimingLogger) -> Path:
    assert logger.path is not None
    return logger.path


def read_quietly(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_timings(folder)


def sidecar_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(sidecar_path(path).read_text())
    return content


def move_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("precious")
    other.replace(path)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def vanish_with_its_folder(path: Path) -> None:
    remove_folder(path.parent)


HARMS: list[tuple[Harm, str]] = [
    (Path.unlink, "was deleted"),
    (move_away, "was moved away"),
    (replace, "was replaced"),
    (empty, "was cut to 0 bytes"),
    (vanish_with_its_folder, "was deleted"),
]


@pytest.mark.parametrize(("harm", "what"), HARMS)
@pytest.mark.both_cores
def test_rows_go_on_in_a_new_part_and_those_that_are_gone_are_counted_and_said(
    harm: Harm, what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = TimingLogger(0, tmp_path / "logs", flush_interval=3600)
    path = path_of(logger)
    record(logger, BEFORE)
    assert logger.flush()
    harm(path)
    record(logger, AFTER, BEFORE)
    with caplog.at_level(logging.WARNING):
        assert not logger.flush(), "rows that an earlier flush vouched for are gone"
    assert logger.stats == Counters(accepted=15, written=AFTER, dropped=BEFORE, pending=0)
    assert logger.flush(), "they are counted"
    logger.close()
    assert caplog.text.count(f"{path.name} {what}: {BEFORE} rows") == 1
    part = path.with_name("timing-rank0.part2.csv")
    assert [int(row[1]) for row in rows(part)] == list(range(BEFORE, BEFORE + AFTER))
    stated = sidecar_of(path)
    assert stated["counters"] == {"accepted": 15, "written": AFTER, "dropped": BEFORE, "pending": 0}
    assert [(one["file"], one["rows"], one["lost"], one["why"]) for one in stated["parts"]] == [
        (path.name, 0, BEFORE, what),
        (part.name, AFTER, 0, ""),
    ]


@pytest.mark.parametrize(("harm", "what"), HARMS)
def test_flush_finds_out_also_where_nothing_is_to_be_written(harm: Harm, what: str, tmp_path: Path) -> None:
    logger = TimingLogger(0, tmp_path / "logs", flush_interval=3600)
    record(logger, BEFORE)
    assert logger.flush()
    harm(path_of(logger))
    assert not logger.flush()
    assert logger.stats == Counters(accepted=BEFORE, written=0, dropped=BEFORE, pending=0)
    assert logger.flush()


def test_of_a_file_that_was_cut_in_the_middle_the_whole_rows_count(tmp_path: Path) -> None:
    logger = TimingLogger(0, tmp_path, flush_interval=3600)
    path = path_of(logger)
    record(logger, BEFORE)
    logger.flush()
    ends = [at for at, byte in enumerate(path.read_bytes()) if byte == ord("\n")]
    os.truncate(path, ends[4] + 10)  # the header, four rows, and a piece of the fifth
    record(logger, AFTER, BEFORE)
    logger.close()
    assert logger.stats == Counters(accepted=15, written=4 + AFTER, dropped=6, pending=0)
    with pytest.warns(UserWarning, match="the unterminated last line was cut"):
        assert read_timings(tmp_path)["iteration"].tolist() == [0, 1, 2, 3, *range(BEFORE, BEFORE + AFTER)]


def test_what_somebody_else_put_in_the_place_of_the_file_is_left_as_it_is(tmp_path: Path) -> None:
    logger = TimingLogger(0, tmp_path, flush_interval=3600)
    record(logger, BEFORE)
    logger.flush()
    replace(path_of(logger))
    record(logger, AFTER)
    logger.close()
    assert path_of(logger).read_text() == "precious"


def test_a_file_that_somebody_else_wrote_to_is_not_written_to_again(tmp_path: Path) -> None:
    logger = TimingLogger(0, tmp_path, flush_interval=3600)
    record(logger, BEFORE)
    logger.flush()
    with path_of(logger).open("a") as file:
        file.write("what?")
    record(logger, AFTER, BEFORE)
    logger.close()
    assert path_of(logger).read_text().endswith("what?")
    assert logger.stats == Counters(15, 15, 0, 0)
    with pytest.warns(UserWarning, match="the unterminated last line was cut"):
        assert read_timings(tmp_path)["iteration"].tolist() == list(range(15))


DESCRIPTORS_CLOSED = """
import json, os, resource, sys
from pathlib import Path
from timing_logger import TimingLogger
folder, own = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
logger = TimingLogger(0, folder, flush_interval=3600)
for i in range(10):
    logger.record_timing("A", 1.0, iteration=i)
assert logger.flush()
sidecar = Path(folder, "timing-rank0.meta.json")
while json.loads(sidecar.read_text())["counters"]["written"] < 10:
    pass  # a thread is writing it: it has a descriptor, too, for that moment
os.closerange(3, 4096)
mine = [os.open(own + str(i), os.O_RDWR | os.O_CREAT) for i in range(int(os.environ["FILES"]))]
for i in range(10, 15):
    logger.record_timing("A", 1.0, iteration=i)
assert logger.flush()
logger.close()
for descriptor in mine:
    os.write(descriptor, b"mine")  # still open
print(json.dumps(logger.stats))
"""


@pytest.mark.parametrize("n_files", [slow(1, "among a thousand files is the first, too"), 1000])
def test_a_descriptor_closed_behind_our_back_costs_no_row_and_no_file_of_the_users(
    n_files: int, tmp_path: Path
) -> None:
    """1000 of 1024 files get the logger's number too, wherever it was."""
    (tmp_path / "own").mkdir()
    environment = {"FILES": str(n_files)}
    run = run_python(
        DESCRIPTORS_CLOSED, tmp_path / "logs", tmp_path / "own" / "file", environment=environment
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [15, 15, 0, 0]
    assert {file.read_text() for file in (tmp_path / "own").iterdir()} == {"mine"}
    assert "had its descriptor closed" in run.stderr
    assert "no row is lost" in run.stderr
    df = read_timings(tmp_path / "logs")
    assert df["iteration"].tolist() == list(range(15))
    assert len(df.attrs["files"]) == 1


def test_the_descriptor_has_a_number_that_the_next_file_of_the_user_does_not_get(tmp_path: Path) -> None:
    """Even if all are closed between the look at it and the write."""
    with TimingLogger(0, tmp_path) as logger:
        held = [name for name in os.listdir("/proc/self/fd") if _is(name, path_of(logger))]
        next_one = os.open(tmp_path / "next", os.O_CREAT | os.O_RDWR)
        os.close(next_one)
        assert int(held[0]) > next_one + 100


def _is(descriptor: str, path: Path) -> bool:
    try:
        return Path(f"/proc/self/fd/{descriptor}").samefile(path)
    except OSError:
        return False


def test_where_no_folder_can_be_made_rows_wait_until_one_can(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    logger = TimingLogger(0, folder, flush_interval=3600)
    record(logger, BEFORE)
    logger.flush()
    remove_folder(folder)
    folder.write_text("in the way")
    record(logger, AFTER)
    assert not logger.flush()
    assert not logger.flush()
    assert logger.stats == Counters(accepted=15, written=0, dropped=BEFORE, pending=AFTER)
    folder.unlink()
    assert logger.flush()
    assert logger.stats == Counters(accepted=15, written=AFTER, dropped=BEFORE, pending=0)
    logger.close()
    assert len(rows(folder / "timing-rank0.part2.csv")) == AFTER


def test_a_folder_that_is_gone_at_the_end_is_not_made_again_for_nothing(tmp_path: Path) -> None:
    logger = TimingLogger(0, tmp_path / "logs", flush_interval=3600)
    record(logger, BEFORE)
    logger.flush()
    remove_folder(tmp_path / "logs")
    logger.close()
    assert not (tmp_path / "logs").exists()


def test_a_process_that_took_the_emptied_folder_keeps_its_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its sidecar, too; a part of the older process would look like one of the newer."""
    old = TimingLogger(0, tmp_path / "logs", flush_interval=3600)
    record(old, BEFORE)
    old.flush()
    remove_folder(tmp_path / "logs")
    new = TimingLogger(0, tmp_path / "logs", flush_interval=3600, labels={"whose": "new"})
    record(new, 3)
    assert new.flush()
    record(old, AFTER, BEFORE)
    old.close()
    record(new, 1)
    new.close()
    assert new.stats == Counters(4, 4, 0, 0)
    stated = sidecar_of(path_of(new))
    assert (stated["labels"], stated["incarnation"]) == ({"whose": "new"}, 1)
    other = tmp_path / "logs" / "timing-rank0.run2.csv"
    assert [int(row[1]) for row in rows(other)] == list(range(BEFORE, BEFORE + AFTER))
    stated = sidecar_of(other)
    assert (stated["file"], stated["incarnation"], stated["closed"]) == (other.name, 2, True)
    assert stated["counters"] == {"accepted": 15, "written": AFTER, "dropped": BEFORE, "pending": 0}
    assert "another process has taken the names" in caplog.text


def test_a_process_that_took_the_names_later_keeps_its_sidecar_too(tmp_path: Path) -> None:
    old = TimingLogger(0, tmp_path / "logs", flush_interval=3600)
    record(old, BEFORE)
    old.flush()
    remove_folder(tmp_path / "logs")
    assert not old.flush()
    new = TimingLogger(0, tmp_path / "logs", flush_interval=3600, labels={"whose": "new"})
    old.close()
    assert sidecar_of(path_of(new))["labels"] == {"whose": "new"}
    assert sidecar_of(path_of(new))["closed"] is False
    new.close()


def test_a_second_process_leaves_the_names_of_which_a_part_is_there(tmp_path: Path) -> None:
    (tmp_path / "timing-rank0.part2.csv").write_text("precious")
    with TimingLogger(0, tmp_path) as logger:
        assert path_of(logger).name == "timing-rank0.run2.csv"


def test_a_file_that_is_deleted_again_and_again_costs_only_what_was_in_it(tmp_path: Path) -> None:
    logger = TimingLogger(0, tmp_path, flush_interval=3600)
    for number in range(5):
        record(logger, BEFORE)
        logger.flush()
        name = "timing-rank0.csv" if number == 0 else f"timing-rank0.part{number + 1}.csv"
        (tmp_path / name).unlink()
    record(logger, AFTER)
    logger.close()
    assert logger.stats == Counters(accepted=55, written=AFTER, dropped=50, pending=0)
    assert len(read_quietly(tmp_path)) == AFTER


def test_a_sink_of_json_lines_goes_on_in_a_new_part_too(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path / "events", 0)
    logger = TimingLogger(0, log_dir=None, sinks=[sink], flush_interval=3600)
    record(logger, BEFORE)
    logger.flush()
    sink.path.unlink()
    record(logger, AFTER)
    assert not logger.flush()
    logger.close()
    assert logger.stats == Counters(accepted=15, written=AFTER, dropped=BEFORE, pending=0)
    assert len((tmp_path / "events" / "cuda_events_rank_0.part2.jsonl").read_text().splitlines()) == AFTER


def part_of(path: Path) -> int:
    name = TimingFile.parse(path.name)
    assert name is not None
    return name.part


@pytest.mark.both_cores
def test_however_often_files_are_taken_away_what_is_written_is_what_is_there(tmp_path: Path) -> None:
    """By another thread, so that now and then it comes between the look at a file and the write to it."""
    folder, chance, done = tmp_path / "logs", random.Random(7), threading.Event()
    logger = TimingLogger(0, folder, flush_interval=0.001, maxsize=10**6)

    def harm_files() -> None:
        while not done.wait(0.001):
            for path in sorted(folder.glob("*.csv"), key=part_of)[-1:]:
                chance.choice([Path.unlink, halve, move_away])(path)

    harming = threading.Thread(target=harm_files)
    harming.start()
    for _ in range(15):
        record(logger, 50)
        logger.flush()
    done.set()
    harming.join()
    record(logger, 50)
    logger.flush()
    max(folder.glob("*.csv"), key=part_of).unlink()  # then all that are there are looked at
    record(logger, 50)
    logger.close()
    stats = logger.stats
    assert (stats.accepted, stats.pending) == (850, 0)
    assert stats.written + stats.dropped == stats.accepted
    assert stats.dropped > 0
    texts = [path.read_text() for path in folder.glob("*.csv")]
    there = sum(text.count("\n") - 1 for text in texts if text.startswith(HEADER))
    assert stats.written == there


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_files_have_the_permissions_that_were_asked_for(mode: int, tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path, flush_interval=3600, file_mode=mode) as logger:
        record(logger, BEFORE)
        logger.flush()
        path_of(logger).unlink()
        record(logger, AFTER)
    found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert found == {"timing-rank0.part2.csv": mode, "timing-rank0.meta.json": mode}
