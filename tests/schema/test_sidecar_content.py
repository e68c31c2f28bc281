"""The sidecar: names of files, what is read of it, what it states; and when a call hangs, whoever asks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from timing_logger import TimingLogger
from timing_logger.autologging.settings import hang_after_s
from timing_logger.errors import NotATimingFileError
from timing_logger.native_mpi.run_info_in_c import run_info_header
from timing_logger.process import sidecar_files, this_process
from timing_logger.process.sidecar_files import check_is_file, is_anothers, parts_of, read_sidecar
from timing_logger.results import criteria
from timing_logger.schema.defaults import HANG_AFTER_S
from timing_logger.schema.record import Record
from timing_logger.schema.sidecar import (
    UNUSABLE,
    ClockAnchor,
    FilePart,
    GroupProgress,
    ImportedFrom,
    OpenCallInfo,
    RunInfo,
    Stall,
    in_order_of_not_told,
    usable_sidecar,
)
from timing_logger.schema.timing_files import TimingFile, sidecar_path

# -- names -----------------------------------------------------------------------------------------------

NAMES = {
    "timing-rank0.csv": TimingFile(0, 1, 1),
    "timing-rank12.run2.csv": TimingFile(12, 2, 1),
    "timing-rank0.part3.csv": TimingFile(0, 1, 3),
    "timing-rank0.run2.part4.csv": TimingFile(0, 2, 4),
    "timing-rank2147483647.csv": TimingFile(2**31 - 1, 1, 1),
}


@pytest.mark.parametrize(("name", "stated"), NAMES.items())
def test_a_name_states_the_rank_the_run_and_the_part(name: str, stated: TimingFile) -> None:
    assert TimingFile.parse(name) == stated
    assert stated.name == name


@pytest.mark.parametrize(
    "name", ["timing-rank2147483648.csv", "timing-rank.csv", "timing-rank0.csv.gz", "host-rank0.csv"]
)
def test_a_name_of_another_form_or_of_no_possible_rank_is_none(name: str) -> None:
    assert TimingFile.parse(name) is None


def test_the_parts_of_a_run_are_found_in_order_and_no_others(tmp_path: Path) -> None:
    for name in ("", ".part10", ".part2", ".run2", ".run2.part3", ".part2.copy"):
        (tmp_path / f"timing-rank1{name}.csv").touch()
    (tmp_path / "timing-rank10.csv").touch()
    found = [path.name for path in parts_of(tmp_path / "timing-rank1.csv")]
    assert found == ["timing-rank1.csv", "timing-rank1.part2.csv", "timing-rank1.part10.csv"]


def test_a_file_of_which_no_part_is_left_is_gone(tmp_path: Path) -> None:
    (tmp_path / "timing-rank1.csv").touch()
    with pytest.raises(FileNotFoundError, match=r"timing-rank0\.csv' is gone"):
        parts_of(tmp_path / "timing-rank0.csv")


@pytest.mark.parametrize(
    ("name", "sidecar"),
    [
        ("timing-rank0.csv", "timing-rank0.meta.json"),
        ("timing-rank0.part2.csv", "timing-rank0.meta.json"),
        ("timing-rank0.run2.part3.csv", "timing-rank0.run2.meta.json"),
        ("mine.csv", "mine.meta.json"),
    ],
)
def test_all_parts_share_one_sidecar(name: str, sidecar: str) -> None:
    assert sidecar_path(Path("logs") / name) == Path("logs") / sidecar


def test_what_is_named_like_a_timing_file_and_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "timing-rank0.csv"
    file.touch()
    check_is_file("paths", file)
    with pytest.raises(NotATimingFileError, match=r"^paths: '.*' is not a regular file\. Move it away\.$"):
        check_is_file("paths", tmp_path)


# -- reading ---------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A timing file that has no sidecar so far."""
    return tmp_path / "timing-rank0.csv"


def put(file: Path, text: str) -> None:
    sidecar_path(file).write_text(text)


def test_a_sidecar_is_read_up_to_the_most_bytes_that_one_can_have(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(file, '{"rank": 3}')
    monkeypatch.setattr(sidecar_files, "_MOST_BYTES", 11)
    assert read_sidecar(file) == {"rank": 3}
    monkeypatch.setattr(sidecar_files, "_MOST_BYTES", 10)
    assert read_sidecar(file) is None


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", "[" * 10**5, "\udcff{}"], ids=len)
def test_what_is_no_json_object_is_no_sidecar(file: Path, text: str) -> None:
    sidecar_path(file).write_bytes(text.encode(errors="surrogateescape"))
    assert read_sidecar(file) is None


def test_a_pipe_in_the_place_of_a_sidecar_is_not_waited_for(file: Path) -> None:
    os.mkfifo(sidecar_path(file))
    assert read_sidecar(file) is None


def test_a_pipe_that_takes_its_place_in_the_last_moment_is_not_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(sidecar_path(file))
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    assert read_sidecar(file) is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"pid": os.getpid(), "started_unix_ns": 5}, False),
        ({"pid": os.getpid(), "started_unix_ns": 6}, True),
        ({"pid": os.getpid() + 1, "started_unix_ns": 5}, True),
    ],
)
def test_a_sidecar_of_another_process_or_start_is_anothers(
    file: Path, content: dict[str, int], expected: bool
) -> None:
    assert is_anothers(file, 5) is None
    put(file, json.dumps(content))
    assert is_anothers(file, 5) is expected


def test_what_has_the_wrong_type_is_left_out_and_named_beside_what_was_named_before() -> None:
    stated = {"rank": "one", "pid": -1, "signal": "SIGTERM", UNUSABLE: ["before", 3]}
    assert usable_sidecar(stated) == {"signal": "SIGTERM", UNUSABLE: ["before", "rank", "pid"]}
    assert usable_sidecar({"rank": 1, UNUSABLE: "no list"}) == {"rank": 1}


def test_what_may_be_negative_is_read_as_it_is_and_a_clock_only_if_it_is_whole() -> None:
    anchors = [{"perf_counter_ns": -5, "unix_ns": 1, "uncertainty_ns": 0}, {"perf_counter_ns": 1}]
    found = usable_sidecar({"clock_anchors": anchors})
    assert found == {
        "clock_anchors": anchors[:1],
        UNUSABLE: ["clock_anchors[1].unix_ns", "clock_anchors[1].uncertainty_ns"],
    }


def test_an_anchor_places_its_clock_on_the_wall_clock() -> None:
    assert ClockAnchor(perf_counter_ns=100, unix_ns=1000, uncertainty_ns=1).wall_offset_ns == 900


def test_two_clocks_drift_apart_by_15_ppm_each_at_most() -> None:
    assert pytest.approx(30e-6) == criteria.MAX_CLOCK_DRIFT


# -- what it states --------------------------------------------------------------------------------------


def info(**stated: Any) -> RunInfo:
    return RunInfo(
        file="timing-rank0.csv", rank=0, incarnation=1, world_size=None, labels={}, options={},
        started_unix_ns=5, **stated,
    )  # fmt: skip


OPEN = Record(3, 1, "layer1", "BARRIER", "", 8, 100, None, "host", "world", 4, 17, 2, "main", "inflight")


def test_an_open_call_is_told_of_in_the_words_of_its_row() -> None:
    assert OpenCallInfo.of(OPEN)._asdict() == {
        "thread": "main", "operation": "BARRIER", "layer_name": "layer1", "iteration": 3, "epoch": 1,
        "group": "world", "group_size": 4, "seq": 17, "peer": 2, "message_size_bytes": 8,
        "start_counter_ns": 100,
    }  # fmt: skip


def test_the_sidecar_begins_with_the_version_of_its_schema_and_names_every_value() -> None:
    stall = Stall(1, 2, [OpenCallInfo.of(OPEN)], [GroupProgress("world", 4, 18, 17)], ["line"])
    text = info(last_stall=stall, parts=[FilePart("timing-rank0.csv", 3, 40)]).to_json()
    assert text.startswith('{\n "schema_version": 1,\n "file": "timing-rank0.csv",')
    assert text.endswith("\n}\n")
    content = json.loads(text)
    assert content["last_stall"]["groups"] == [{"group": "world", "size": 4, "issued": 18, "completed": 17}]
    assert content["last_stall"]["open_calls"][0]["seq"] == 17
    assert content["parts"] == [{"file": "timing-rank0.csv", "rows": 3, "bytes": 40, "lost": 0, "why": ""}]


def test_what_nobody_stated_is_nothing() -> None:
    content = json.loads(info().to_json())
    zeros = ("updated_unix_ns", "logger_cpu_ns", "written_bytes", "last_progress_counter_ns", "behind_s")
    assert [content[name] for name in zeros] == [0] * len(zeros)
    assert content["counters"] == {"accepted": 0, "written": 0, "dropped": 0, "pending": 0}
    assert content["crash_protection"] == {"on": False, "reason": "no ring"}
    assert not content["closed"]
    assert not content["killed"]
    assert ImportedFrom("kineto", [], {}, []).goes_on is False


def test_what_a_source_does_not_tell_is_listed_in_one_order() -> None:
    assert in_order_of_not_told(["end", "communication", "sizes", "of another version"]) == [
        "communication", "sizes", "end",
    ]  # fmt: skip


# -- where it is -----------------------------------------------------------------------------------------


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """States what stands in the kernel's files; one that is not stated is not there."""

    def states(**files: str) -> None:
        for name, text in files.items():
            (tmp_path / name).write_text(text)

    monkeypatch.setattr(this_process, "Path", lambda path: tmp_path / os.path.basename(path))
    return states


def test_the_axis_of_a_host_is_named_by_its_boot_and_by_the_offset_of_a_time_namespace(
    kernel: Callable[..., None],
) -> None:
    assert this_process.boot_id() == ""
    kernel(boot_id="a-b-c\n")
    assert this_process.boot_id() == "a-b-c"
    kernel(timens_offsets="monotonic           0         0\nboottime            9         9\n")
    assert this_process.boot_id() == "a-b-c"
    for seconds, nanoseconds in ((3, 0), (0, 4)):
        kernel(timens_offsets=f"boottime  9  9\nmonotonic  {seconds}  {nanoseconds}\n")
        assert this_process.boot_id() == f"a-b-c+{seconds}s{nanoseconds}ns"


def test_where_there_are_no_pid_namespaces_the_number_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> os.stat_result:
        raise FileNotFoundError(path)

    assert this_process.pid_namespace() == os.stat("/proc/self/ns/pid").st_ino
    monkeypatch.setattr(os, "stat", refuse)
    assert this_process.pid_namespace() == 0


def test_the_versions_are_those_of_what_was_imported_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = ModuleType("torch")
    monkeypatch.setattr(torch, "__version__", 2.9, raising=False)  # no text, as some have
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "mpi4py", ModuleType("mpi4py"))
    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    found = this_process._versions()
    assert found.pop("timing_logger")
    assert found == {"python": ".".join(map(str, sys.version_info[:3])), "torch": "2.9"}


def test_a_tree_that_was_never_installed_has_no_known_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", refuse)
    assert this_process._own_version.__wrapped__() == "unknown"


# -- after how long a call hangs -------------------------------------------------------------------------


def test_a_call_hangs_after_60_s_in_a_logger_that_is_told_nothing_else(tmp_path: Path) -> None:
    TimingLogger(0, tmp_path).close()
    sidecar = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    assert sidecar["options"]["hang_after"] == 60.0


def test_under_run_it_hangs_after_as_long_where_the_environment_says_nothing() -> None:
    assert hang_after_s({}) == hang_after_s({"TIMING_LOGGER_HANG_AFTER": "soon"}) == HANG_AFTER_S


def test_in_a_program_in_c_it_hangs_after_as_long() -> None:
    assert f"#define HANG_AFTER_S {HANG_AFTER_S}\n" in run_info_header()
