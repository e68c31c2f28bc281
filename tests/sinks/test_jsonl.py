"""Rows of JSON: one strict, physical line for each record, whatever a caller put into it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from json_lines import json_rows

from timing_logger.errors import LogPathError
from timing_logger.schema.record import Record
from timing_logger.sinks.jsonl import JsonlSink


def record(**fields: Any) -> Record:
    """An operation A of 1.5 ms in step 4, unless ``fields`` say something else."""
    raw = Record(4, None, "", "A", "", None, 1_000, 1_501_000, "host", "", None, None, None, "main", "ok")
    return raw._replace(**fields)


def written(directory: Path, **fields: Any) -> dict[str, Any]:
    """The row of one such record."""
    sink = JsonlSink(directory, 3)
    sink.write([record(**fields)], 0)
    sink.close()
    (row,) = json_rows(sink.path)
    assert list(row)[:4] == ["name", "step", "rank", "duration_ms"]
    return row


def written_metadata(directory: Path, metadata: Any) -> dict[str, Any]:
    row = written(directory, metadata=metadata)
    return {key: row[key] for key in list(row)[4:]}


def test_a_row_has_four_keys_and_no_others(tmp_path: Path) -> None:
    assert written(tmp_path) == {"name": "A", "step": 4, "rank": 3, "duration_ms": 1.5}


def test_a_record_without_an_end_has_no_duration(tmp_path: Path) -> None:
    row = written(tmp_path, end_ns=None, status="unresolved", metadata={"tokens": 1})
    assert row == {
        "name": "A", "step": 4, "rank": 3, "duration_ms": None, "status": "unresolved", "tokens": 1,
    }  # fmt: skip


def test_metadata_follows_in_its_own_order(tmp_path: Path) -> None:
    metadata = {"tokens": 4096, "loss": 1.5, "packed": True, "shape": [2, 3], "dp": {"rank": 1}, "note": None}
    found = written_metadata(tmp_path, metadata)
    assert found == metadata
    assert list(found) == list(metadata)


def test_metadata_with_the_name_of_a_key_is_kept_under_another(tmp_path: Path) -> None:
    metadata = {"name": 1, "step": 2, "rank": 3, "metadata_rank": 4, "duration_ms": 5, "status": 6, 7: 8}
    assert written_metadata(tmp_path, metadata) == {
        "metadata_name": 1,
        "metadata_step": 2,
        "metadata_rank": 3,
        "metadata_metadata_rank": 4,
        "metadata_duration_ms": 5,
        "metadata_status": 6,
        "<int>": 8,
    }


class Hostile:
    """Whoever asks this object for its text is sorry."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "in_the_row"),
    [
        (Hostile(), "<Hostile>"),
        ({"inside": [Hostile()]}, {"inside": ["<Hostile>"]}),
        (float("nan"), "NaN"),
        ([float("inf"), -float("inf")], ["Infinity", "-Infinity"]),
        (CIRCLE, "<list>"),
        ({(1, 2): 3}, "<dict>"),
        (b"bytes", "<bytes>"),
        ("half a character: \ud83d", "half a character: ?"),
    ],
    ids=["hostile", "hostile inside", "nan", "infinities", "circle", "keys", "bytes", "half a character"],
)
def test_a_value_that_is_not_json_does_not_lose_the_row(tmp_path: Path, value: Any, in_the_row: Any) -> None:
    found = written_metadata(tmp_path, {"good": 1, "bad": value, "better": 2})
    assert found == {"good": 1, "bad": in_the_row, "better": 2}


@pytest.mark.skipif(not hasattr(sys, "set_int_max_str_digits"), reason="writes integers of any length")
def test_an_integer_that_python_refuses_to_write_does_not_lose_the_row(tmp_path: Path) -> None:
    assert written_metadata(tmp_path, {"big": 10**5000}) == {"big": "<int>"}


class BrokenMapping(Mapping[str, Any]):
    """A caller's own kind, which has a key and no value for it."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Any:
        return iter(["key"])

    def __len__(self) -> int:
        return 1


def test_metadata_that_cannot_be_read_does_not_lose_the_row(tmp_path: Path) -> None:
    assert written_metadata(tmp_path, BrokenMapping()) == {"metadata": "<BrokenMapping>"}


def test_names_and_steps_that_are_none_do_not_lose_the_row(tmp_path: Path) -> None:
    row = written(tmp_path, operation=Hostile(), iteration=float("nan"))
    assert (row["name"], row["step"]) == ("<Hostile>", "NaN")


def test_numpys_numbers_are_numbers(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    metadata = {
        "a": numpy.int64(3),
        "b": numpy.float32(0.5),
        "c": numpy.float32("nan"),
        "d": numpy.float64(2),
    }
    assert written_metadata(tmp_path, metadata) == {"a": 3, "b": 0.5, "c": "NaN", "d": 2.0}


def test_a_tensor_is_not_read(tmp_path: Path) -> None:
    """Reading one of a device would wait for the device."""
    torch = pytest.importorskip("torch")
    assert written_metadata(tmp_path, {"loss": torch.tensor(1.5)}) == {"loss": "<Tensor>"}


@pytest.mark.parametrize("text", ["a\nb\r", "\u2028\u2029\x85\x00", "naïve 日本 🙂", '"\\ud83d'])
def test_a_row_is_one_physical_line_whatever_its_texts_hold(tmp_path: Path, text: str) -> None:
    row = written(tmp_path, operation=text, metadata={text: text})
    assert (row["name"], row[text]) == (text, text)
    (line,) = (tmp_path / "cuda_events_rank_3.jsonl").read_text().splitlines()
    assert json.loads(line) == row


# -- the file ------------------------------------------------------------------------------------


def test_half_written_rows_are_taken_back_and_written_whole_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write = os.write
    sink = JsonlSink(tmp_path, 0)

    def write_half_and_fail(descriptor: int, data: memoryview) -> int:
        if len(data) < 60:
            raise OSError(28, "No space left on device")
        return real_write(descriptor, data[:60])

    batch = [record(iteration=step) for step in (1, 2)]
    with monkeypatch.context() as broken:
        broken.setattr(os, "write", write_half_and_fail)
        with pytest.raises(OSError, match="No space"):
            sink.write(batch, 0)
    assert sink.path.read_bytes() == b""
    sink.write(batch, 0)
    sink.close()
    assert [row["step"] for row in json_rows(sink.path)] == [1, 2]
    assert sink.written_bytes == sink.path.stat().st_size


def test_a_second_sink_of_a_rank_leaves_the_first_ones_file_alone(tmp_path: Path) -> None:
    first, second = JsonlSink(tmp_path, 0), JsonlSink(tmp_path, 0)
    first.write([record()], 0)
    assert (first.path.name, first.incarnation) == ("cuda_events_rank_0.jsonl", 1)
    assert (second.path.name, second.incarnation) == ("cuda_events_rank_0.run2.jsonl", 2)
    assert json_rows(second.path) == []
    first.close()
    second.close()


def test_a_directory_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    with pytest.raises(LogPathError, match=r"directory: .*precious' is a file, not a directory"):
        JsonlSink(tmp_path / "precious" / "deeper" / "still", 0)


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    with pytest.raises(LogPathError, match=r"directory: .*precious' is a file, not a directory"):
        JsonlSink(tmp_path / "precious", 0)


def test_a_planted_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "cuda_events_rank_0.jsonl").symlink_to(tmp_path / "precious")
    with pytest.raises(LogPathError, match=r"directory: .* is a symbolic link, not a regular file"):
        JsonlSink(tmp_path, 0)
    assert (tmp_path / "precious").read_text() == "precious"
