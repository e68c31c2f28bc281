"""A folder of timing files that are appended to: its rows, and what its sidecars say."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.importing import growing_files
from timing_logger.importing.growing_files import GrowingFolder
from timing_logger.importing.log_folder import Process
from timing_logger.process.sidecar_files import read_sidecar
from timing_logger.schema.record import RawRecord, Record

LOG, OTHER_LOG = Path("logs/a.jsonl"), Path("logs/b.jsonl")
UNIX_S = 1_900_000_000  # later than now: the clocks of a log may be ahead


def row(end_ns: int = 20) -> RawRecord:
    return tuple(
        Record(0, 0, "", "FORWARD", "", None, 10, end_ns, "host", "", None, None, None, "MainThread", "ok")
    )


def process(rank: int, wall_offset_ns: int = 0) -> Process:
    return Process(rank, wall_offset_ns=wall_offset_ns)


@pytest.fixture
def folder(tmp_path: Path) -> GrowingFolder:
    path = tmp_path / "of" / "run"
    path.mkdir(parents=True)
    return GrowingFolder(path, "steps")


def sidecar(folder: GrowingFolder, rank: int = 0) -> Any:
    found = read_sidecar(folder.path / f"timing-rank{rank}.csv")
    assert found is not None
    return found


def test_rows_go_to_the_file_of_their_rank_and_are_counted(folder: GrowingFolder) -> None:
    folder.append(process(3), [row(), row()], LOG)
    folder.append(process(1), [row()], LOG)
    folder.append(process(3), [row()], LOG)
    folder.append(process(2), [], LOG)
    assert (folder.ranks, folder.n_rows, folder.notes) == ([1, 3], 4, [])
    lines = {path.name: path.read_text().count("FORWARD") for path in folder.path.glob("*.csv")}
    assert lines == {"timing-rank1.csv": 1, "timing-rank3.csv": 3}
    folder.close()


def test_what_was_left_out_is_told_once_with_the_first_rank_and_sources_with_each(
    folder: GrowingFolder,
) -> None:
    for rank, log in ((2, OTHER_LOG), (2, LOG), (1, LOG)):
        folder.append(process(rank), [row()], log)
    folder.left_out.add("a line that is no JSON", 2)
    folder.not_told = ["waits", "end"]
    folder.close()
    first, second = (sidecar(folder, rank)["imported"] for rank in (1, 2))
    assert (first["left_out"], second["left_out"]) == ({"a line that is no JSON": 2}, {})
    assert (first["files"], second["files"]) == (["a.jsonl"], ["a.jsonl", "b.jsonl"])
    assert sorted(first["not_told"]) == sorted(second["not_told"]) == ["end", "waits"]


def test_a_sidecar_says_that_more_comes_until_the_folder_is_closed(folder: GrowingFolder) -> None:
    folder.append(process(0), [row()], LOG)
    folder.refresh()
    assert (sidecar(folder)["closed"], sidecar(folder)["imported"]["goes_on"]) == (False, True)
    assert sidecar(folder)["run_id"] == "import steps run"
    folder.close()
    assert (sidecar(folder)["closed"], sidecar(folder)["imported"]["goes_on"]) == (True, False)


def test_sidecars_are_written_again_after_seconds_or_for_a_new_rank(
    folder: GrowingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000.0
    clock = SimpleNamespace(monotonic=lambda: now_s, time_ns=time.time_ns)
    monkeypatch.setattr(growing_files, "time", clock)

    def says_after(later_s: float, *, n_left_out: int) -> int:
        nonlocal now_s
        now_s += later_s
        folder.left_out["lines"] = n_left_out
        folder.refresh()
        return int(sidecar(folder)["imported"]["left_out"]["lines"])

    folder.append(process(0), [row()], LOG)
    assert says_after(0.0, n_left_out=1) == 1
    folder.append(process(0), [row()], LOG)
    assert says_after(4.9, n_left_out=2) == 1
    assert says_after(0.2, n_left_out=3) == 3
    folder.append(process(1), [row()], LOG)
    assert says_after(0.1, n_left_out=4) == 4
    folder.close()


@pytest.mark.parametrize(("not_told", "is_ahead"), [((), True), (("instants",), False)])
def test_all_ranks_are_as_new_as_the_newest_row_unless_instants_are_made_up(
    folder: GrowingFolder, not_told: tuple[str, ...], is_ahead: bool
) -> None:
    folder.append(process(0, 5), [row()], LOG)
    folder.append(process(1, UNIX_S * 10**9), [row(end_ns=50)], LOG)
    before_ns = time.time_ns()
    folder.not_told = list(not_told)
    folder.refresh()
    updated_ns = {sidecar(folder, rank)["updated_unix_ns"] for rank in (0, 1)}
    assert len(updated_ns) == 1
    if is_ahead:
        assert updated_ns == {UNIX_S * 10**9 + 50}
    else:
        assert before_ns <= updated_ns.pop() <= time.time_ns()
    folder.close()


def test_what_was_cleared_is_gone_and_the_folder_goes_on(folder: GrowingFolder) -> None:
    folder.append(process(0), [row()], LOG)
    folder.refresh()
    folder.clear()
    assert (list(folder.path.iterdir()), folder.n_rows, folder.ranks) == ([], 0, [])
    folder.append(process(1), [row()], LOG)
    folder.close()
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "timing-rank1.csv",
        "timing-rank1.meta.json",
    ]
