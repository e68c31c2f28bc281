"""Whatever stands in a sidecar, all commands answer or say one sentence, and what cannot be used is named."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hostile_files import COMMANDS, change_sidecar, mutated, say_all, write_run

from timing_logger.reading import read_timings
from timing_logger.run_info import UNUSABLE, RunInfo, read_sidecar, sidecar_path, usable_sidecar

FIELD_BY_COMMAND = {
    "labels": ["x", 1], "counters": [1, 2, 3, 4], "clock_anchors": None, "clock_offsets": ["a", "b"],
    "device_clocks": {"cuda:0": 1}, "rank": "0", "world_size": -4, "options": 7, "host": {"a": 1},
    "closed": 1, "started_unix_ns": 10**30, "logger_cpu_ns": "1",
}  # fmt: skip


def test_every_field_of_another_type_is_left_out_and_named(tmp_path: Path) -> None:
    path, _ = write_run(tmp_path)
    change_sidecar(path, lambda content: content.update(FIELD_BY_COMMAND))
    sidecar = read_sidecar(path) or {}
    named = {name.partition("[")[0] for name in sidecar[UNUSABLE]}
    assert named == set(FIELD_BY_COMMAND)
    assert sidecar.keys().isdisjoint(set(FIELD_BY_COMMAND) - {"clock_offsets"})
    assert sidecar["clock_offsets"] == []


def test_an_entry_of_which_a_part_is_wrong_is_none(tmp_path: Path) -> None:
    path, _ = write_run(tmp_path)

    def change(content: dict[str, Any]) -> None:
        content["clock_offsets"][1]["offset_ns"] = "12"
        content["clock_anchors"].append({"unix_ns": 1})
        content["counters"]["dropped"] = -1
        content["device_clocks"][0]["anchors"][0]["uncertainty_ns"] = None

    change_sidecar(path, change)
    sidecar = read_sidecar(path) or {}
    assert sidecar[UNUSABLE] == [
        "clock_anchors[1].perf_counter_ns", "clock_anchors[1].uncertainty_ns", "clock_offsets[1].offset_ns",
        "device_clocks[0].anchors[0].uncertainty_ns", "counters.dropped",
    ]  # fmt: skip
    assert [len(sidecar[name]) for name in ("clock_anchors", "clock_offsets", "device_clocks")] == [1, 1, 0]
    assert "dropped" not in sidecar["counters"]
    assert sidecar["counters"]["written"] == 18


def test_what_a_logger_writes_is_usable_as_it_is(tmp_path: Path) -> None:
    for path in write_run(tmp_path):
        assert read_sidecar(path) == json.loads(sidecar_path(path).read_text())
    written = RunInfo(
        file="timing-rank0.csv", rank=0, incarnation=1, world_size=None,
        labels={"lr": float("nan"), "of": [1]}, options={}, started_unix_ns=1,
    )  # fmt: skip
    assert UNUSABLE not in (usable_sidecar(json.loads(written.to_json())) or {})


def test_fields_that_are_lacking_or_not_known_are_no_flaw() -> None:
    assert usable_sidecar({"rank": 1, "of_a_later_version": [None]}) == {
        "rank": 1,
        "of_a_later_version": [None],
    }
    assert usable_sidecar({"device_clocks": [{"device": "cuda:0"}]}) == {
        "device_clocks": [{"device": "cuda:0"}]
    }


@pytest.mark.slow("that reading says it is quick, of Parquet")
@pytest.mark.parametrize("command", ["waits", "trace -o {out}.json", "summary"])
def test_summary_trace_and_reader_say_what_they_cannot_use(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    path, _ = write_run(tmp_path / "in")
    change_sidecar(path, lambda content: content["counters"].update(written=[18]))
    with pytest.warns(UserWarning, match="rank0.csv: its sidecar states no value that can be one for"):
        read_timings(tmp_path / "in")
    said = say_all(tmp_path / "in", tmp_path, capsys, [command])[command]
    assert "states no value that can be one for counters.written" in said.out


def test_what_was_left_out_of_a_sidecar_is_still_named_in_parquet(tmp_path: Path) -> None:
    from timing_logger.reading.converting import convert

    path, _ = write_run(tmp_path / "in")
    change_sidecar(path, lambda content: content.update(host=1))
    with pytest.warns(UserWarning, match="host"):
        convert(tmp_path / "in", "parquet", tmp_path / "out")
    with pytest.warns(UserWarning, match="no value that can be one for host"):
        first, _ = read_timings(tmp_path / "out").attrs["files"]
    assert first["sidecar"][UNUSABLE] == ["host"]


@pytest.mark.slow("all commands on random sidecars; which values are left out of these is quick")
@pytest.mark.parametrize("seed", range(3))
def test_no_mutation_of_a_sidecar_ends_in_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    files, chance = write_run(tmp_path / "in"), random.Random(seed)

    def change(content: dict[str, Any]) -> Any:
        return mutated(content, chance)[0]

    for _ in range(2):  # also where several values are wrong
        for path in files:
            if isinstance(json.loads(sidecar_path(path).read_text()), dict):
                change_sidecar(path, change)
    for one in say_all(tmp_path / "in", tmp_path / "out", capsys, COMMANDS).values():
        assert "\x1b" not in one.out
        assert "\u202e" not in one.out


NO_SIDECARS = (b"", b"{", b"[]", b"null", b"1e999", b"[" * 10**5, b"9" * 5000, b"\xff\xfe")


@pytest.mark.parametrize("content", NO_SIDECARS)
def test_what_is_no_sidecar_is_none(tmp_path: Path, content: bytes) -> None:
    path, _ = write_run(tmp_path)
    sidecar_path(path).write_bytes(content)
    assert read_sidecar(path) is None


@pytest.mark.slow("that it is read as none is quick, and what is said of a file without one")
@pytest.mark.parametrize("content", NO_SIDECARS)
def test_of_a_file_with_what_is_no_sidecar_it_is_said_that_it_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path, _ = write_run(tmp_path / "in")
    sidecar_path(path).write_bytes(content)
    assert "no sidecar" in say_all(tmp_path / "in", tmp_path, capsys, ["summary"])["summary"].out
